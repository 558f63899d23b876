"""Planners that a caller brings: functions, or their names."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.library.check_arguments import arguments_of_call, member, seconds
from penstock.engine.library.costs_named import costs_named
from penstock.engine.library.given_topologies import Given, Paths, SparkFrames
from penstock.engine.library.plan_here import plan_here
from penstock.engine.library.planned_tables import Plan
from penstock.engine.planning.choose_planner import Choice, Planner, choose_planner
from penstock.engine.planning.plan_options import PlanOptions
from penstock.plans.errors import ConfigurationError

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

    with arguments_of_call():
        find_custom_planners(planner)
    return True


def plan_by_own_planner(
    planner: Any,
    costs: Any,
    time_limit: float,
    source: Given,
    options: PlanOptions,
    longest: int,
    spark: "SparkSession | None",
    aside: Any,
) -> Plan:
    """A plan by a planner that the caller brings, made in this process: DataFrames of Spark are read first.

    Raises ConfigurationError where topologies are not on this machine, and what planning raises.
    """
    from penstock.engine.planning.custom_planners import named_custom_planners

    if isinstance(source, SparkFrames):
        from penstock.engine.library.small_inputs import read_frames

        spark = spark or source.frames[0].sparkSession
        source = read_frames(source)
    if (
        isinstance(source, Paths)
        and choose_planner(Planner.COLUMNAR, source.paths, os.curdir, False).on_spark
    ):
        raise ConfigurationError(
            "planner: a planner of your own plans in this process; found paths that are not local",
            "penstock plan --planner NAME --master URL plans in Spark's workers",
        )
    chosen = Choice(Planner.COLUMNAR, "as asked")
    with costs_named(costs) as named, arguments_of_call():
        own = named_custom_planners(planner, named, seconds("time_limit", time_limit))
        return plan_here(source, options, longest, chosen, spark, aside, own)
