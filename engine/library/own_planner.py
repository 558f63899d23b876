"""Planners that a caller brings: functions, or their names."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.engine.library.check_arguments import member
from penstock.engine.library.costs_named import costs_named
from penstock.engine.library.given_topologies import Given, Paths, SparkFrames
from penstock.engine.library.plan_here import plan_here
from penstock.engine.library.planned_tables import Plan
from penstock.engine.planning.choose_planner import Choice, Planner, choose_planner
from penstock.engine.planning.plan_options import PlanOptions
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.rules import shorten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OwnPlanner = Callable[..., Any] | Sequence[Callable[..., Any]]
"""Functions marked by penstock.decides."""


def is_own_planner(planner: Any) -> bool:
    """Whether `planner` is one that the caller brings, which is loaded and looked at then.

    Raises ConfigurationError where it is neither that nor one of Planner.
    """
    if isinstance(planner, str):
        if planner in list(Planner):
            return False
        from penstock.engine.planning.find_custom_planners import names_custom_planner

        if not names_custom_planner(planner):
            member("planner", planner, Planner)
    elif not callable(planner) and not isinstance(planner, tuple | list):
        member("planner", planner, Planner)
    from penstock.engine.planning.find_custom_planners import find_custom_planners

    with _of_argument():
        find_custom_planners(planner)
    return True


def plan_by_own_planner(
    planner: Any,
    costs: Any,
    time_limit: float,
    given: Given,
    options: PlanOptions,
    longest: int,
    spark: "SparkSession | None",
    aside: Any,
) -> Plan:
    """A plan by a planner that the caller brings, made in this process: DataFrames of Spark are read first.

    Raises ConfigurationError where topologies are not on this machine, and what planning raises.
    """
    from penstock.engine.planning.custom_planners import named_custom_planners

    if isinstance(given, SparkFrames):
        from penstock.engine.library.small_inputs import read_frames

        spark = spark or given.frames[0].sparkSession
        given = read_frames(given)
    if isinstance(given, Paths) and choose_planner(Planner.COLUMNAR, given.paths, os.curdir, False).on_spark:
        raise ConfigurationError(
            "planner: a planner of your own plans in this process; found paths that are not local",
            "penstock plan --planner NAME --master URL plans in Spark's workers",
        )
    chosen = Choice(Planner.COLUMNAR, "as asked")
    with costs_named(costs) as named, _of_argument():
        own = named_custom_planners(planner, named, _seconds(time_limit))
        return plan_here(given, options, longest, chosen, spark, aside, own)


@contextmanager
def _of_argument() -> Iterator[None]:
    """Names arguments of the call in place of a command's options."""
    try:
        yield
    except ConfigurationError as error:
        said = error.message.replace("--planner ", "planner ").replace("--costs ", "costs ")
        raise ConfigurationError(said, error.hint) from error


def _seconds(time_limit: Any) -> float:
    if not isinstance(time_limit, int | float) or isinstance(time_limit, bool) or not time_limit > 0:
        raise ConfigurationError(f"time_limit: found {shorten(time_limit)}, allowed seconds above 0")
    return float(time_limit)
