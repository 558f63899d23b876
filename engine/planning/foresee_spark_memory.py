"""Whether what a local Spark plans fits in memory, said before the work starts.

docs/scaling.md has the measurements.
"""

from penstock.engine.machine.available_memory import Available, require_memory, shown_bytes
from penstock.engine.spark.foresee_spark_memory import HINT, LEAST_HEAP_MEBIBYTES
from penstock.plans.errors import NotEnoughMemoryError

BYTES_OF_A_PLANNED_ROW = 7_000
"""What planning a transformation or stream node takes: its tables, and Arrow blocks in and out."""

BYTES_OF_A_WALKED_ROW = 400
"""What a transformation or stream node takes in a worker that only walks its topology for the joins."""

BYTES_OF_A_PACKED_ROW = 160
"""The same where the topology has blocks, which come packed: 114 to 125 of layered topologies and giants."""

BYTES_OF_A_JOINED_ROW = 2_500
"""What joins take in the heap for a transformation or stream node, beside LEAST_HEAP_MEBIBYTES."""

_UNEVEN = 1.3
"""How many times the mean the largest partition of a fleet is."""

_HEAP_COUNTED = 0.9
"""The share of -Xmx that counts: garbage collectors other than G1 may report less than they were given."""


def rows_at_once(rows: int, largest: int, partitions: int, cores: int) -> int:
    """Transformations and stream nodes in the partitions that are planned at a time, if these are large ones.

    `rows`: of all topologies; `largest`: of one that lies whole in a partition.
    """
    return min(rows, int(min(partitions, cores) * rows / partitions * _UNEVEN) + largest)


def bytes_to_walk(rows: int, giant: int) -> int:
    """What workers take that walk `rows` at a time for the joins, `giant` of them of a topology in blocks."""
    return (rows - giant) * BYTES_OF_A_WALKED_ROW + giant * BYTES_OF_A_PACKED_ROW


def require_memory_of_workers(rows: int, size_bytes: int, available: Available) -> None:
    """Raise NotEnoughMemoryError if Python workers of a local Spark cannot have what they plan at once.

    `rows`: see rows_at_once; `size_bytes`: what these take; `available`: see memory_of_workers.
    """
    work = f"planning {rows:,} transformations at a time in workers of a local Spark"
    require_memory(size_bytes, work, available, f"use fewer cores (--master local[1]), or {HINT}")


def require_heap_to_join(rows: int, heap: int | None) -> None:
    """Raise NotEnoughMemoryError if the heap of a local Spark is too small for joins.

    `rows`: as of rows_at_once; `heap`: in bytes, None where it is not known. Hash maps, and a page of each
    sort, have to be in memory; everything else is spilled.
    """
    needed = LEAST_HEAP_MEBIBYTES * 2**20 + rows * BYTES_OF_A_JOINED_ROW
    if heap is not None and heap < _HEAP_COUNTED * needed:
        more = f"--conf spark.driver.memory={-(-needed // 2**20)}m"
        raise NotEnoughMemoryError(
            f"joining {rows:,} transformations at a time takes a heap of about {shown_bytes(needed)}, and "
            f"Spark's JVM has {shown_bytes(heap)}",
            f"give it more ({more}), join fewer at a time (--master local[1]), or use --planner columnar, "
            "which needs less",
        )
