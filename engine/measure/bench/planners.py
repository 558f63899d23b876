"""The planners that can be measured, and what their times include. Nothing of theirs is imported here."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any, NamedTuple

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import (
    VARIABLE,
    configuration_directory,
    find_configuration,
)
from penstock.engine.machine.die_with_parent import environment_as_before
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command
from penstock.plans.layers import Choices
from penstock.plans.printable import printable
from penstock.plans.topology.flink_options import parse_duration


class MeasuredPlanner(NamedTuple):
    """`module` has start() -> Plans and plan_lines(path, until); see engine.bench.run_columnar."""

    name: str
    module: str
    needs: tuple[str, ...]  #: modules that have to be there
    packages: tuple[str, ...]  #: packages that have to be there and have no module
    reads_lines: bool  #: topology lines only; others read generated suites as tables
    includes: str
    kept: bool = False  #: one process for all measurements, cold in the first one only


PLANNERS: dict[str, MeasuredPlanner] = {
    planner.name: planner
    for planner in (
        MeasuredPlanner(
            "joins",
            "penstock.engine.measure.bench.run_spark",
            ("pyspark", "delta"),
            (),
            False,
            "Penstock's passes in a local Spark session. Start-up: Python, the JVM and the session. Reading: "
            "tables (Parquet; files: JSON lines), validated and partitioned. Planning: the passes of each "
            "layer, the counts that show nothing is lost, and handing over: every table of the plan read to "
            "its end into a sink that drops the rows, which also derives tables no pass keeps. Nothing is "
            "written to disk. Memory: Python, the JVM and all Python workers; pages that they "
            "share count for each of them. One session for the whole benchmark: only the first plan is cold.",
            kept=True,
        ),
        MeasuredPlanner(
            "columnar-on-spark",
            "penstock.engine.measure.bench.run_spark",
            ("pyspark", "delta", "polars"),
            (),
            False,
            "Penstock's columnar planner in the Python workers of a local Spark session, a part of the "
            "topologies a call. As joins; partitioning includes packing tables into blocks, and handing over "
            "unpacks every table of the plan into Spark's rows.",
            kept=True,
        ),
        MeasuredPlanner(
            "columnar",
            "penstock.engine.measure.bench.run_columnar",
            ("polars",),
            (),
            False,
            "Penstock's columnar planner in one Python process, one thread per core. Start-up: Python and "
            "its imports. Reading: the same tables (Parquet; files: JSON lines), validated. Planning: the "
            "passes of each layer, leaving refused topologies out, and handing over all tables of the plan "
            "as Arrow tables; each has its share of the time that passes. Nothing is written to disk.",
        ),
        MeasuredPlanner(
            "flink",
            "penstock.engine.measure.bench.run_flink",
            ("penstock.engine.flink.plan_with_flink",),
            ("apache-flink-libraries",),
            True,
            "Apache Flink's own classes in a JVM with as much heap as Spark's and Java's default stack. "
            "Start-up: Python and the JVM. Reading: JSON lines. Planning: what Flink does for each layer, "
            "which includes serialising operator configurations that Penstock does not make. The plans are "
            "objects in memory. Warm plans follow the cold one in the same JVM. Memory: Python and the JVM.",
        ),
    )
}


OWN = (
    "A planner of your own in one Python process, as columnar. Start-up: importing it, too. Planning: "
    "Flink's plan that it is shown, its decisions, the plan that follows from them, and the checks of it."
)


def planner_named(name: str) -> MeasuredPlanner:
    """One of PLANNERS, or a planner of the user's."""
    if name in PLANNERS:
        return PLANNERS[name]
    return MeasuredPlanner(
        name, "penstock.engine.measure.bench.run_own_planner", ("polars",), (), False, OWN + _device(name)
    )


def _device(name: str) -> str:
    """The processor that a program computes on, as it says."""
    if not name.startswith("program:"):
        return ""
    from penstock.engine.planning.planner_program import program_named

    device = program_named(name).greeting.device
    return "" if device is None else f" Its device: {printable(device)}."


def why_missing(planner: MeasuredPlanner) -> str | None:
    """Why a planner cannot run here; None if it can."""
    for module in planner.needs:
        try:
            spec = find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            return f"not installed: no module {module}"
    for package in planner.packages:
        try:
            distribution(package)
        except PackageNotFoundError:
            return f"not installed: no package {package} ({install_command(planner.name)})"
    return None


def load_planner(name: str) -> Any:
    """The module that runs a planner, or an object with the same functions."""
    module = import_module(planner_named(name).module)
    if name not in PLANNERS:
        return module.OwnPlanner(name)
    return module.COLUMNAR if name == "columnar-on-spark" else module


# What options of `penstock bench` choose: planners, sizes, a time.


def chosen_planners(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The planners that can run, and why the others cannot."""
    for name in names:
        if name not in PLANNERS:
            _require_own(name)
    wanted = [planner_named(name) for name in names or PLANNERS]
    reasons = {planner.name: why_missing(planner) for planner in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason}
    chosen = [name for name, reason in reasons.items() if not reason]
    if not chosen:
        said = "; ".join(f"{name} is {reason}" for name, reason in missing.items())
        raise ConfigurationError(f"--planner: none of them can run here: {said}")
    return chosen, missing


def _require_own(name: str) -> None:
    """ConfigurationError unless this is a planner of the user's that can be loaded."""
    from penstock.engine.planning.find_custom_planners import find_custom_planners, names_custom_planner

    if not names_custom_planner(name):
        raise ConfigurationError(
            f"--planner {name}: allowed {', '.join(PLANNERS)}, or a planner of your own",
            "package.module:function, or an entry point of the group penstock.planners",
        )
    find_custom_planners(name)


def budget_seconds(budget: str) -> float:
    """The seconds in --budget. Raises ConfigurationError."""
    try:
        seconds = parse_duration(budget) / 1000
    except ValueError as error:
        raise ConfigurationError(f"--budget {budget!r}: {error}", "a time such as 90s or 10m") from None
    if seconds <= 0:
        raise ConfigurationError(f"--budget {budget!r}: allowed more than no time", "such as 90s or 10m")
    return seconds


def listed(values: list[str]) -> list[str]:
    """Values of an option that may be repeated and hold commas, each once; a file's name is taken whole."""
    parts = [part for value in values for part in ([value] if os.path.isfile(value) else value.split(","))]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def numbers_of_operators(text: str) -> list[int]:
    """The numbers of operators in --sizes. Raises ConfigurationError."""
    try:
        sizes = [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 2:
        raise ConfigurationError(
            f"--sizes {text!r}: allowed numbers of operators, 2 or more, with commas between"
        )
    return sizes


# The configuration of measured planners: what the command says, in the processes that it starts too.


OPTIONS = "PENSTOCK_BENCH_OPTIONS"
"""The variable that hands -D on; unlike a command line, other users of the machine cannot read it."""


def hand_on(config_dir: str | None, options: Mapping[str, str]) -> EffectiveConfiguration:
    """The configuration of a directory with `options` above it, for child processes too.

    Raises ConfigurationError with all that is wrong.
    """
    if config_dir is not None:
        os.environ[VARIABLE] = str(configuration_directory(config_dir).path.resolve())
    os.environ[OPTIONS] = json.dumps(dict(options))
    return bench_configuration()


@contextmanager
def handed_on(config_dir: str | None, options: Mapping[str, str]) -> Iterator[EffectiveConfiguration]:
    """hand_on for the duration of the context: the environment is the caller's."""
    with environment_as_before(VARIABLE, OPTIONS):
        yield hand_on(config_dir, options)


def bench_configuration() -> EffectiveConfiguration:
    """The configuration that the command has handed on."""
    return find_configuration(None, json.loads(os.environ.get(OPTIONS, "{}")))


@cache
def bench_choices() -> Choices:
    """The cluster that measured planners plan for."""
    return plan_options(cluster=bench_configuration().cluster).choices
