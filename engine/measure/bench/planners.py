"""The planners that can be measured, and what their times include. Nothing of theirs is imported here."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any, NamedTuple

from penstock.plans.installation import install_command
from penstock.plans.printable import printable


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
            "penstock.engine.measure.bench.run_columnar_on_spark",
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
    return module if name in PLANNERS else module.OwnPlanner(name)
