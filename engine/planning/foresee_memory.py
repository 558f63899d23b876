"""Whether a plan fits in memory, said before the memory is taken.

What a row takes is measured: by how much the peak resident memory of `penstock plan --planner columnar`
grows while it runs, writing the store included (VmHWM, Linux, 2 cores). Tasks: a chain of 1,000 vertices
with parallelism 32,768 takes 4.25 GiB, 139 bytes for each task with its partition and its edge; 100 sources
read by 100 vertices with parallelism 4,096, which have 50 edges for each task, take 80 bytes per edge.
Transformations: 12.5 million of one layered topology, 7.5 GB, of which 75 % after reading; 1.25 million of
one, 1.2 GiB (1.3 GiB out of JSON lines); 930,000 of 50,000 random topologies, 1.9 GiB, 63 % of it after
reading; 475,000 of 25,000 chains, 1.0 GiB. Planned in parts: 1.9 million of 100,000 random topologies, 1.14
GiB, 14.9 million of 800,000, 1.31 GiB; the first of them with one, four and eight parts planned at once,
0.79, 1.52 and 2.19 GiB.
"""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from penstock.engine.machine.available_memory import (
    Available,
    available_memory,
    cores,
    require_memory,
    shown_bytes,
)
from penstock.engine.spark.foresee_spark_memory import least_for_spark
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.execution_graph.columnar.job_graph_arrays import TaskRows

BYTES_OF_A_PROCESS = 160 * 2**20
"""Libraries that planning imports."""

ROWS_OF_A_GIANT = 1_000_000
"""Transformations or stream nodes of a topology whose tables are written as soon as nothing reads them."""

BYTES_OF_A_TRANSFORMATION = 1_200
BYTES_OF_A_GIANT_ROW = 550
BYTES_OF_A_GIANT = 2**29
"""Besides: what libraries keep for a while after it was freed."""
BYTES_OF_A_TOPOLOGY = 10_000
SHARE_AFTER_READING, SHARE_AFTER_READING_A_GIANT = 0.6, 0.75
"""What planning adds to the tables that were read, as a share of the whole."""

BYTES_IN_PARTS, BYTES_OF_A_PART = 700 * 2**20, 250 * 2**20
"""What a fleet takes while its parts are read, planned and written: in all, and for each planned part."""
MOST_PARTS_AT_ONCE = 4
"""Parts are read one after the other, which feeds two or three that are planned."""
BYTES_OF_A_NAME = 300
"""What is kept of each topology that came in, to notice names that occur twice."""

BYTES_OF_A_TASK = 40
BYTES_OF_A_PARTITION = 20
BYTES_OF_AN_EDGE = 80

BYTES_OF_AN_EXPORTED_ROW = 1_900
"""Mapped for each row of nodes, edges and slots: 500,000 of them take 0.9 GiB, 0.55 GiB resident."""

BYTES_OF_A_NODE_PLANNED_AGAIN = 3_600
"""For `explain --what-if`: 1 million nodes of one layered topology take 3.5 GiB, whatever the reason."""

LEAST_TO_READ_ON = 64 * 2**20
"""Reading ends with an error before less than this is left."""


HINT = (
    "plan the input in smaller parts, with --until job_graph (which has no tasks), or with --planner joins "
    "and --master URL on a cluster; or give it more memory"
)


class FleetSize(NamedTuple):
    """What is known of an input's size before it is read."""

    transformations: int
    topologies: int

    @property
    def is_giant(self) -> bool:
        """Whether this is one topology, so large that its plan should be written while it is made."""
        return self.topologies == 1 and self.transformations >= ROWS_OF_A_GIANT

    @property
    def needed_bytes(self) -> int:
        """Memory that reading and planning take, without tasks."""
        if self.is_giant:
            return BYTES_OF_A_PROCESS + BYTES_OF_A_GIANT + self.transformations * BYTES_OF_A_GIANT_ROW
        of_rows = self.transformations * BYTES_OF_A_TRANSFORMATION + self.topologies * BYTES_OF_A_TOPOLOGY
        return BYTES_OF_A_PROCESS + of_rows

    @property
    def needed_bytes_in_parts(self) -> int:
        """Memory that it takes to plan many topologies part by part, while they are read."""
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
        """What planning adds to the tables that were read."""
        return int(
            self.needed_bytes * (SHARE_AFTER_READING_A_GIANT if self.is_giant else SHARE_AFTER_READING)
        )

    def __str__(self) -> str:
        return f"{self.transformations:,} transformations of {self.topologies:,} topologies"


def parts_at_once() -> int:
    """How many parts of a fleet are planned at once here."""
    return min(cores(), MOST_PARTS_AT_ONCE)


def require_memory_to_plan(size: FleetSize, times: float = 1.0, *, in_parts: bool = False) -> None:
    """Raise NotEnoughMemoryError if this process cannot have what an input of about that size takes.

    `times`: how many times the estimate has to be there. `in_parts`: topologies are planned while they are
    read.
    """
    needed = size.needed_bytes_in_parts if in_parts else size.needed_bytes
    _require(int(needed * times), f"planning about {size}")


def require_memory_after_reading(size: FleetSize) -> None:
    """Raise NotEnoughMemoryError if tables that were read leave too little for planning them."""
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
    """Raise NotEnoughMemoryError if this process cannot hold so much of a plan's largest tables."""
    hint = "give it more memory, or export topologies one by one with --topology"
    _require(rows * BYTES_OF_AN_EXPORTED_ROW, f"exporting {rows:,} rows at a time", hint=hint)


def require_memory_to_plan_again(nodes: int) -> None:
    """Raise NotEnoughMemoryError if this process cannot plan this many operators of a plan once more."""
    hint = "give it more memory; a topology that large can be planned with other options instead (plan -D)"
    _require(nodes * BYTES_OF_A_NODE_PLANNED_AGAIN, f"planning {nodes:,} operators again", hint=hint)


def require_memory_for_tasks() -> Callable[[TaskRows], None]:
    """A check to be called with the rows of each part, from any thread, before its tasks are made.

    It raises NotEnoughMemoryError once the parts together exceed what there was when the first one came.
    """
    lock = Lock()
    there: list[Available] = []
    total = TaskRows(0, 0, 0)

    def check(rows: TaskRows) -> None:
        nonlocal total
        with lock:
            total = TaskRows(*map(sum, zip(total, rows, strict=True)))
            if not there:
                there.append(available_memory())
            _require(
                bytes_of_tasks(total), f"planning {total.tasks:,} tasks with {total.edges:,} inputs", there[0]
            )

    return check


def bytes_of_tasks(rows: TaskRows) -> int:
    """Memory that the tables of tasks take."""
    return (
        rows.tasks * BYTES_OF_A_TASK + rows.partitions * BYTES_OF_A_PARTITION + rows.edges * BYTES_OF_AN_EDGE
    )


def spark_fits() -> bool:
    """Whether a local Spark can start here."""
    available = available_memory()
    return available.size_bytes >= least_for_spark(available)


def _require(needed_bytes: int, work: str, there: Available | None = None, hint: str = HINT) -> None:
    require_memory(needed_bytes, work, there or available_memory(), hint)
