"""The columnar planner in Spark's Python workers as a benchmark runs it."""

from collections.abc import Iterator
from pathlib import Path

from penstock.engine.measure.bench import run_spark
from penstock.engine.measure.bench.times import Plans
from penstock.engine.planning.choose_planner import Planner
from penstock.plans.vocabulary import Layer


def start() -> Plans:
    """A local session."""
    return run_spark.start(Planner.COLUMNAR)


def plan_lines(path: Path, until: Layer) -> Iterator[str]:
    """Plan JSON lines."""
    return run_spark.plan_lines(path, until, Planner.COLUMNAR)
