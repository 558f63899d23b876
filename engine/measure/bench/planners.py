"""Planners that can be measured, and the phases that their times include. Imports none of their modules."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import NamedTuple

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import (
    VARIABLE,
    configuration_directory,
    find_configuration,
)
from penstock.engine.machine.operating_system import environment_as_before
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command
from penstock.plans.layers import PlanOptions
from penstock.plans.printable import printable
from penstock.plans.topology.flink_options import parse_duration


class MeasuredPlanner(NamedTuple):
    """A planner that benchmarks measure; run_planners and run_flink start it."""

    name: str
    needs: tuple[str, ...]  #: required modules
    packages: tuple[str, ...]  #: required packages without a module
    reads_lines: bool  #: topology lines only; other planners read generated suites as tables
    includes: str
    reused: bool = False  #: one process for all measurements, cold only in the first


PLANNERS: dict[str, MeasuredPlanner] = {
    planner.name: planner
    for planner in (
        MeasuredPlanner(
            "blocks",
            ("pyspark", "delta"),
            (),
            False,
            "Penstock in a local Spark session: whole topologies in its Python workers, large ones in "
            "blocks. Start-up: Python, the JVM and the session. Reading: tables (Parquet; files: JSON "
            "lines), validated and divided among workers. Planning: the passes of each layer (of blocks all "
            "layers together), the counts that show nothing is lost, and handing over: every table of the "
            "plan read to its end into a sink that drops the rows. Nothing is written to disk. Memory: "
            "Python, the JVM and all Python workers; pages that they share count for each of them. One "
            "session for the whole benchmark: only the first plan is cold.",
            reused=True,
        ),
        MeasuredPlanner(
            "workers",
            ("pyspark", "delta", "polars"),
            (),
            False,
            "Penstock in the Python workers of a local Spark session, a part of the topologies a call. As "
            "blocks, but every topology is planned whole; handing over unpacks every table of the plan into "
            "Spark's rows.",
            reused=True,
        ),
        MeasuredPlanner(
            "process",
            ("polars",),
            (),
            False,
            "Penstock in one Python process, one thread per core. Start-up: Python and its imports. Reading: "
            "the same tables (Parquet; files: JSON lines), validated. Planning: the passes of each layer, "
            "leaving refused topologies out, and handing over all tables of the plan as Arrow tables; each "
            "has its share of the time that passes. Nothing is written to disk.",
        ),
        MeasuredPlanner(
            "flink",
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
"""Planners by the names that `penstock plan --planner` takes, too."""

OTHER_NAMES = {
    "auto": "process",  # its choice for local inputs that fit in memory
    "joins": "blocks",
    "columnar-on-spark": "workers",
    "columnar": "process",
}
"""Other names that are taken: auto, and the names that these planners had in older benchmarks."""

OWN = (
    "A custom planner in one Python process, like the planner process. Start-up: importing it, too. "
    "Planning: Flink's plan that it gets, its decisions, the plan that follows from them, and the checks "
    "of it."
)


def current_name(name: str) -> str:
    """Return the name of a planner in PLANNERS that may be given by another one."""
    return OTHER_NAMES.get(name, name)


def get_planner(name: str) -> MeasuredPlanner:
    """Return a planner from PLANNERS, or a custom planner."""
    if name in PLANNERS:
        return PLANNERS[name]
    return MeasuredPlanner(name, ("polars",), (), False, OWN + _device(name))


def _device(name: str) -> str:
    """Name the processor that a program reports to compute on."""
    if not name.startswith("program:"):
        return ""
    from penstock.engine.planning.planner_program import program_named

    device = program_named(name).greeting.device
    return "" if device is None else f" Its device: {printable(device)}."


def missing_reason(planner: MeasuredPlanner) -> str | None:
    """Return why a planner cannot run here; None if it can."""
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


# Values of options of `penstock bench`: planners, sizes, a time.


def chosen_planners(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the planners that can run, under their current names, and reasons for the others."""
    names = list(dict.fromkeys(map(current_name, names)))
    for name in names:
        if name not in PLANNERS:
            _require_own(name)
    wanted = [get_planner(name) for name in names or PLANNERS]
    reasons = {planner.name: missing_reason(planner) for planner in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason}
    chosen = [name for name, reason in reasons.items() if not reason]
    if not chosen:
        listed_reasons = "; ".join(f"{name} is {reason}" for name, reason in missing.items())
        raise ConfigurationError(f"--planner: none of them can run here: {listed_reasons}")
    return chosen, missing


def _require_own(name: str) -> None:
    """Raise ConfigurationError unless `name` is a custom planner that can be loaded."""
    from penstock.engine.planning.find_custom_planners import find_custom_planners, names_custom_planner

    if not names_custom_planner(name):
        close = get_close_matches(name, [*PLANNERS, *OTHER_NAMES], n=1)
        raise ConfigurationError(
            f"--planner must be one of {', '.join(PLANNERS)}, or a custom planner, got {name}",
            f"did you mean {close[0]}?"
            if close
            else "package.module:function, or an entry point of the group penstock.planners",
        )
    find_custom_planners(name)


def budget_seconds(budget: str) -> float:
    """Parse --budget into seconds. Raises ConfigurationError."""
    try:
        seconds = parse_duration(budget) / 1000
    except ValueError as error:
        raise ConfigurationError(
            f"--budget {budget!r}: {error}", "give a duration such as 90s or 10m"
        ) from None
    if seconds <= 0:
        raise ConfigurationError(
            f"--budget must be above 0, got {budget!r}", "give a duration such as 90s or 10m"
        )
    return seconds


def listed(values: list[str]) -> list[str]:
    """Split values of a repeatable option at commas, without duplicates; names of files are not split."""
    parts = [part for value in values for part in ([value] if os.path.isfile(value) else value.split(","))]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def numbers_of_operators(text: str) -> list[int]:
    """Parse --sizes into numbers of operators. Raises ConfigurationError."""
    try:
        sizes = [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 2:
        raise ConfigurationError(
            f"--sizes must be numbers of operators, 2 or more, separated by commas, got {text!r}"
        )
    return sizes


# The command's configuration of measured planners, passed to child processes too.


OPTIONS = "PENSTOCK_BENCH_OPTIONS"
"""Variable that passes on -D; unlike a command line, other users of the machine cannot read it."""


def hand_on(config_dir: str | None, options: Mapping[str, str]) -> EffectiveConfiguration:
    """Load the configuration of a directory, overridden by `options`, and pass it on to child processes.

    Raises ConfigurationError with all errors.
    """
    if config_dir is not None:
        os.environ[VARIABLE] = str(configuration_directory(config_dir).path.resolve())
    os.environ[OPTIONS] = json.dumps(dict(options))
    return bench_configuration()


@contextmanager
def handed_on(config_dir: str | None, options: Mapping[str, str]) -> Iterator[EffectiveConfiguration]:
    """Like hand_on inside the context; restores the caller's environment at the end."""
    with environment_as_before(VARIABLE, OPTIONS):
        yield hand_on(config_dir, options)


def bench_configuration() -> EffectiveConfiguration:
    """Load the configuration that the command has passed on."""
    return find_configuration(None, json.loads(os.environ.get(OPTIONS, "{}")))


@cache
def bench_options() -> PlanOptions:
    """Return the options, above all the cluster, that measured planners plan for."""
    return plan_options(cluster=bench_configuration().cluster)
