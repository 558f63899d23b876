"""Whether what a local Spark plans fits in memory, said before the work starts.

docs/scaling.md has the measurements.
"""

from typing import Any

from engine.machine.available_memory import Available
from engine.machine.require_memory import require_memory, shown_bytes
from engine.spark.foresee_spark_memory import HINT, LEAST_HEAP_MEBIBYTES, heap_bytes
from plans.errors import NotEnoughMemoryError

BYTES_OF_A_PLANNED_ROW = 7_000
"""Of a transformation or stream node that is planned: its tables, and blocks of Arrow in and out."""

BYTES_OF_A_WALKED_ROW = 400
"""Of a transformation or stream node whose topology a worker walks, where joins do everything else."""

_UNEVEN = 1.3
"""How many times the mean the largest partition of a fleet is."""

_HEAP_COUNTED = 0.9
"""Of -Xmx: what garbage collectors other than G1 say that they have may be less."""


def require_memory_of_workers(
    rows: int, largest: int, partitions: int, at_once: int, row_bytes: int, left: Available
) -> None:
    """Raise NotEnoughMemoryError if Python workers of a local Spark cannot have what they plan.

    `rows`: transformations and stream nodes; `largest`: of one topology; `partitions` are planned `at_once`
    at a time; `row_bytes`: what one row takes in a worker; `left`: what memory_of_workers finds.
    """
    at_once = min(partitions, at_once)
    in_workers = min(rows, int(at_once * rows / partitions * _UNEVEN) + largest)
    require_memory(
        in_workers * row_bytes,
        f"planning {rows:,} transformations in workers of a local Spark, {at_once} parts at a time,",
        left,
        f"use fewer cores (--master local[1]), or {HINT}",
    )


def require_heap_to_join(context: Any) -> None:
    """Raise NotEnoughMemoryError if the heap of a local Spark is too small for joins, of whatever size.

    Sorts of one stage hold a page each, whose size follows from the heap; what is larger is spilled.
    """
    heap = heap_bytes(context)
    least = LEAST_HEAP_MEBIBYTES * 2**20
    if heap is not None and heap < _HEAP_COUNTED * least:
        raise NotEnoughMemoryError(
            f"joins take a heap of {shown_bytes(least)} at least; Spark's JVM has {shown_bytes(heap)}",
            f"--conf spark.driver.memory={LEAST_HEAP_MEBIBYTES}m, or --planner columnar",
        )
