"""Estimate the memory that a plan takes, and refuse before it is taken.

Bytes per row are measured: the growth of the peak resident memory of `penstock plan --planner process`
while it runs, writing the store included (VmHWM, Linux, 2 cores). Tasks: a chain of 1,000 vertices with
parallelism 32,768 takes 4.25 GiB, 139 bytes for each task with its partition and its edge; 100 sources
read by 100 vertices with parallelism 4,096, which have 50 edges for each task, take 80 bytes per edge.
Transformations: 12.5 million of one layered topology, 7.5 GB, of which 75 % after reading; 1.25 million of
one, 1.2 GiB (1.3 GiB out of JSON lines); 930,000 of 50,000 random topologies, 1.9 GiB, 63 % of it after
reading; 475,000 of 25,000 chains, 1.0 GiB. Planned in parts: 1.9 million of 100,000 random topologies, 1.14
GiB, 14.9 million of 800,000, 1.31 GiB; the first of them with one, four and eight parts planned at once,
0.79, 1.52 and 2.19 GiB.
"""

import socket
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from penstock.engine.machine.available_memory import (
    Available,
    available_memory,
    require_memory,
    shown_bytes,
)
from penstock.engine.machine.operating_system import cores, resident_bytes
from penstock.engine.spark.spark_memory_estimate import (
    BYTES_BESIDE_A_HEAP,
    heap_bytes,
    least_for_spark,
)
from penstock.engine.spark.spark_memory_estimate import HINT as SPARK_HINT
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.execution_graph.job_graph_arrays import TaskRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Check before the work starts that a plan on a local Spark fits in memory.
#
# docs/scaling.md has the measurements.


BYTES_OF_A_PLANNED_ROW = 7_000
"""Bytes to plan a transformation or stream node: its tables, and Arrow blocks in and out."""

BYTES_OF_A_ROW_OF_A_BLOCK = 2_000
"""What a transformation takes in the worker that has its block: 1,730 of a layered topology."""

BYTES_OF_A_ROW_ON_A_WALK = 280
"""What a transformation takes in the one worker that walks a giant in blocks: 213 on the walk over operators,
253 on that over vertices, of a layered topology with parallelism 4."""

BYTES_OF_A_TASK_ON_A_WALK = 24
"""What a task takes there."""

_UNEVEN = 1.3
"""Size of a fleet's largest partition, as a multiple of the mean."""


def rows_at_once(rows: int, largest: int, partitions: int, cores: int) -> int:
    """Return the transformations and stream nodes that are planned at a time, in the largest partitions.

    `rows`: of all topologies; `largest`: of the largest topology that stays whole in a partition.
    """
    return min(rows, int(min(partitions, cores) * rows / partitions * _UNEVEN) + largest)


def require_memory_of_workers(rows: int, size_bytes: int, available: Available) -> None:
    """Raise NotEnoughMemoryError if rows planned at once exceed the memory of a local Spark's Python workers.

    `rows`: see rows_at_once; `size_bytes`: their memory; `available`: see memory_of_workers.
    """
    work = f"planning {rows:,} transformations at a time in workers of a local Spark"
    require_memory(size_bytes, work, available, f"use fewer cores (--master local[1]), or {SPARK_HINT}")


def require_memory_for_blocks(
    rows: int, tasks: int, rows_at_a_time: int, available: Callable[[], Available]
) -> None:
    """Raise NotEnoughMemoryError if workers of a local Spark cannot have what a giant in blocks takes.

    `rows`, `tasks`: of the giant; `rows_at_a_time`: in the blocks that are planned at a time; `available`:
    see memory_of_workers, called where it may be too little. One worker walks all rows while others wait,
    with what they have taken.
    """
    walk = rows * BYTES_OF_A_ROW_ON_A_WALK + tasks * BYTES_OF_A_TASK_ON_A_WALK
    needed = walk + rows_at_a_time * BYTES_OF_A_ROW_OF_A_BLOCK
    if needed > _SMALL_ENOUGH_BYTES:
        work = f"planning {rows:,} transformations in blocks on a local Spark"
        hint = f"use fewer cores (--master local[1]), or {SPARK_HINT}"
        require_memory(needed, work, available(), hint)


_SMALL_ENOUGH_BYTES = 2**29


# Memory of Spark's Python workers on their machines.


def memory_of_workers(spark: "SparkSession") -> Available:
    """Return the memory available to all workers together while all cores work, and its limit.

    For a local Spark, the growth of the JVM up to its heap is subtracted. On a cluster, where only memory
    free now counts, all machines count as the smallest.
    """
    from penstock.engine.spark.session import cores_of, is_on_this_machine

    if is_on_this_machine(spark):
        available = available_memory()
        growth = _growth_of_the_jvm(spark.sparkContext)
        return Available(max(0, available.size_bytes - growth), available.limited_by)
    cores = cores_of(spark)
    workers = (
        spark.range(cores, numPartitions=cores).mapInArrow(_measure, "host string, bytes long").collect()
    )
    hosts = {row["host"] for row in workers}
    return Available(min(row["bytes"] for row in workers) * len(hosts), "the smallest machine of the cluster")


def is_local(context: Any) -> bool:
    """Return whether Spark is one JVM on this machine."""
    from penstock.plans.frames import spark_schemas

    return spark_schemas.is_local(context)


def _growth_of_the_jvm(context: Any) -> int:
    """Return the bytes by which the JVM may still grow, inside and outside its heap."""
    process, heap = getattr(context._gateway, "proc", None), heap_bytes(context)
    if process is None or heap is None:
        return 0
    return max(0, heap + BYTES_BESIDE_A_HEAP // 2 - resident_bytes(process.pid))


def _measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict(
            {"host": [socket.gethostname()], "bytes": [available_memory().size_bytes]}
        )


BYTES_OF_A_PROCESS = 160 * 2**20
"""For libraries that planning imports."""

ROWS_OF_A_GIANT = 1_000_000
"""From this many transformations or stream nodes, a topology's tables are written once no step reads them."""

BYTES_OF_A_TRANSFORMATION = 1_200
BYTES_OF_A_GIANT_ROW = 550
BYTES_OF_A_GIANT = 2**29
"""Added for memory that libraries retain for a while after it was freed."""
BYTES_OF_A_TOPOLOGY = 10_000
SHARE_AFTER_READING, SHARE_AFTER_READING_A_GIANT = 0.6, 0.75
"""Memory that planning adds to the tables that were read, as a share of the whole."""

BYTES_IN_PARTS, BYTES_OF_A_PART = 700 * 2**20, 250 * 2**20
"""Memory of a fleet whose parts are read, planned and written: in total, and for each part being planned."""
MOST_PARTS_AT_ONCE = 4
"""Parts are read one after the other; one reader keeps two or three planners busy."""
BYTES_OF_A_NAME = 300
"""Memory for each topology's name and id, to detect duplicates."""

BYTES_OF_A_TASK = 40
BYTES_OF_A_PARTITION = 20
BYTES_OF_AN_EDGE = 80

BYTES_OF_AN_EXPORTED_ROW = 1_900
"""Mapped for each row of nodes, edges and slots: 500,000 of them take 0.9 GiB, 0.55 GiB resident."""

BYTES_OF_A_NODE_PLANNED_AGAIN = 3_600
"""For `explain --what-if`: 1 million nodes of one layered topology take 3.5 GiB with every change."""

LEAST_TO_READ_ON = 64 * 2**20
"""Reading ends with an error if less than this is left."""


HINT = (
    "plan the input in smaller parts, with --until job_graph (which has no tasks), or with --planner blocks "
    "and --master URL on a cluster; or give it more memory"
)


class FleetSize(NamedTuple):
    """An input's size, estimated before it is read."""

    transformations: int
    topologies: int

    @property
    def is_giant(self) -> bool:
        """Return whether this is one topology so large that its plan should be written while it is made."""
        return self.topologies == 1 and self.transformations >= ROWS_OF_A_GIANT

    @property
    def needed_bytes(self) -> int:
        """Return the memory for reading and planning, without tasks."""
        if self.is_giant:
            return BYTES_OF_A_PROCESS + BYTES_OF_A_GIANT + self.transformations * BYTES_OF_A_GIANT_ROW
        row_bytes = self.transformations * BYTES_OF_A_TRANSFORMATION + self.topologies * BYTES_OF_A_TOPOLOGY
        return BYTES_OF_A_PROCESS + row_bytes

    @property
    def needed_bytes_in_parts(self) -> int:
        """Return the memory for planning many topologies part by part, while they are read."""
        if self.topologies < 2:
            return self.needed_bytes
        return min(
            self.needed_bytes,
            BYTES_OF_A_PROCESS
            + BYTES_IN_PARTS
            + parts_at_once() * BYTES_OF_A_PART
            + self.topologies * BYTES_OF_A_NAME,
        )

    @property
    def needed_bytes_after_reading(self) -> int:
        """Return the memory that planning adds to the tables that were read."""
        return int(
            self.needed_bytes * (SHARE_AFTER_READING_A_GIANT if self.is_giant else SHARE_AFTER_READING)
        )

    def __str__(self) -> str:
        return f"{self.transformations:,} transformations of {self.topologies:,} topologies"


def parts_at_once() -> int:
    """Return the number of a fleet's parts that are planned in parallel on this machine."""
    return min(cores(), MOST_PARTS_AT_ONCE)


def require_memory_to_plan(size: FleetSize, times: float = 1.0, *, in_parts: bool = False) -> None:
    """Raise NotEnoughMemoryError if an input of this estimated size does not fit in this process.

    `times`: multiple of the estimate that must be free. `in_parts`: topologies are planned while they are
    read.
    """
    needed = size.needed_bytes_in_parts if in_parts else size.needed_bytes
    _require(int(needed * times), f"planning about {size}")


def require_memory_after_reading(size: FleetSize) -> None:
    """Raise NotEnoughMemoryError if tables that were read leave too little memory to plan them."""
    _require(size.needed_bytes_after_reading, f"planning {size}")


def require_memory_to_read_on() -> None:
    """Raise NotEnoughMemoryError before memory runs out while topologies are read."""
    available = available_memory()
    if available.size_bytes < LEAST_TO_READ_ON:
        raise NotEnoughMemoryError(
            f"the input does not fit in memory: {shown_bytes(available.size_bytes)} "
            f"are left of {available.limited_by}",
            HINT,
        )


def require_memory_to_export(rows: int) -> None:
    """Raise NotEnoughMemoryError if this process cannot hold `rows` rows of a plan's largest tables."""
    hint = "give it more memory, or export topologies one by one with --topology"
    _require(rows * BYTES_OF_AN_EXPORTED_ROW, f"exporting {rows:,} rows at a time", hint=hint)


def require_memory_to_plan_again(nodes: int) -> None:
    """Raise NotEnoughMemoryError if this process cannot plan `nodes` operators of a plan once more."""
    hint = "give it more memory; a topology that large can be planned with other options instead (plan -D)"
    _require(nodes * BYTES_OF_A_NODE_PLANNED_AGAIN, f"planning {nodes:,} operators again", hint=hint)


def require_memory_for_tasks() -> Callable[[TaskRows], None]:
    """Return a check to call with the rows of each part, from any thread, before its tasks are made.

    The check raises NotEnoughMemoryError once the parts together exceed the memory that was available when
    the first one arrived.
    """
    lock = Lock()
    available: list[Available] = []
    total = TaskRows(0, 0, 0)

    def check(rows: TaskRows) -> None:
        nonlocal total
        with lock:
            total = TaskRows(*map(sum, zip(total, rows, strict=True)))
            if not available:
                available.append(available_memory())
            _require(
                bytes_of_tasks(total),
                f"planning {total.tasks:,} tasks with {total.edges:,} inputs",
                available[0],
            )

    return check


def bytes_of_tasks(rows: TaskRows) -> int:
    """Return the memory of the tables of tasks."""
    return (
        rows.tasks * BYTES_OF_A_TASK + rows.partitions * BYTES_OF_A_PARTITION + rows.edges * BYTES_OF_AN_EDGE
    )


def spark_fits() -> bool:
    """Return whether a local Spark can start on this machine."""
    available = available_memory()
    return available.size_bytes >= least_for_spark(available)


def _require(needed_bytes: int, work: str, available: Available | None = None, hint: str = HINT) -> None:
    require_memory(needed_bytes, work, available or available_memory(), hint)
