"""Whether what a local Spark plans fits in memory, said before the work starts."""

from typing import Any

from engine.machine.available_memory import available_memory, resident_bytes
from engine.spark.foresee_spark_memory import BYTES_BESIDE_A_HEAP, HINT, shown_bytes
from plans.errors import NotEnoughMemoryError

BYTES_OF_A_PLANNED_ROW = 7_000
"""Of a transformation or stream node that is planned: its tables, and blocks of Arrow in and out.

Measured (PSS): one topology of 264,735 transformations takes 2.0 GiB in Python processes, of which 1.1 GiB in
the worker that plans it.
"""

BYTES_OF_A_WALKED_ROW = 400
"""Of a transformation or stream node whose topology a worker walks, where joins do everything else."""

_UNEVEN = 1.3
"""How many times the mean the largest partition of a fleet is."""


def require_memory_on_spark(context: Any, rows: int, largest: int, partitions: int, row_bytes: int) -> None:
    """Raise NotEnoughMemoryError if Python workers of a local Spark cannot have what they plan.

    `context`: the SparkContext. `rows`: transformations and stream nodes; `largest`: of one topology;
    `row_bytes`: what one takes in a worker. On a cluster, nothing is foreseen: memory is the executors'.
    """
    if not str(context.master).startswith("local"):
        return
    at_once = min(partitions, context.defaultParallelism)
    in_workers = min(rows, int(at_once * rows / partitions * _UNEVEN) + largest)
    needed = in_workers * row_bytes + _growth_of_the_jvm(context)
    left = available_memory()
    if needed > left.size_bytes:
        raise NotEnoughMemoryError(
            f"planning {rows:,} transformations on a local Spark, {at_once} parts at a time, takes about "
            f"{shown_bytes(needed)} more memory; there are {shown_bytes(left.size_bytes)}, which is what "
            f"{left.limited_by} leaves",
            f"use fewer cores (--master local[1]), or {HINT}",
        )


def _growth_of_the_jvm(context: Any) -> int:
    """By how much the JVM may still grow: to its heap and what it takes beside that."""
    process = getattr(context._gateway, "proc", None)
    jvm = context._jvm
    if process is None or jvm is None:
        return 0
    heap = int(jvm.java.lang.Runtime.getRuntime().maxMemory())
    return max(0, heap + BYTES_BESIDE_A_HEAP // 2 - resident_bytes(process.pid))
