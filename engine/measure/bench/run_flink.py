"""Run Flink's own classes in a benchmark."""

import gzip
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from penstock.engine.flink.plan_with_flink import compiled_planner, flink_jars, plan_with_flink
from penstock.engine.machine.available_memory import driver_memory_mebibytes
from penstock.engine.measure.bench.times import ENOUGH_SECONDS, NotPlannedError, Times
from penstock.engine.spark.find_java import require_java
from penstock.plans.vocabulary import Layer

UNSUPPORTED = "unsupported"
NOT_FLINKS = ("StackOverflowError", "OutOfMemoryError")
"""Errors of the JVM in place of a plan; all other errors are Flink's verdicts on a topology."""


class FlinkRun:
    """Flink's planner; its JVM starts with each call."""

    def __init__(self) -> None:
        """Compile the Java program if necessary."""
        compiled_planner(flink_jars(), require_java())

    def plans(self, path: Path, until: Layer, warm: int) -> Iterator[Times]:
        """Yield the times of plans that are all made in one JVM. Raises NotPlannedError."""
        started = time.monotonic()
        planned = plan_with_flink(
            _lines(path),
            until,
            heap=_heap(),
            times_only=True,
            repeat=1 + warm,
            enough_seconds=ENOUGH_SECONDS,
        )
        _require_plans(planned.plans, planned.topologies)
        start_up = time.monotonic() - started - sum(sum(run.values()) for run in planned.runs)
        cold, *others = map(_times, planned.runs)
        yield cold._replace(start_up=max(0.0, start_up))
        yield from others

    def lines(self, path: Path, until: Layer) -> Iterator[str]:
        """Yield plan JSON lines. Raises NotPlannedError."""
        planned = plan_with_flink(_lines(path), until, heap=_heap())
        _require_plans(planned.plans, planned.topologies)
        for plan in planned.plans:
            yield orjson.dumps(plan).decode()


def _times(seconds: Mapping[str, float]) -> Times:
    layers = {str(layer): seconds[layer] for layer in Layer if layer in seconds}
    return Times(seconds.get("read"), layers, None)


def _require_plans(plans: Iterable[Mapping[str, Any]], topologies: int) -> None:
    """Raise NotPlannedError if topologies were not planned for a reason outside of them."""
    failed = [
        plan for plan in plans if plan.get("error_stage") == UNSUPPORTED or plan.get("error") in NOT_FLINKS
    ]
    if failed:
        first = failed[0]
        where = f"{len(failed):,} of {topologies:,} topologies, first {first['name']}"
        raise NotPlannedError(first["error"], f"{where}: {first['message']}")


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        yield from file


def _heap() -> str:
    """Return the heap of Flink's JVM, which equals Spark's."""
    return f"{driver_memory_mebibytes()}m"
