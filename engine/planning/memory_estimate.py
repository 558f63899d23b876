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

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

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
from penstock.plans.topology.find_topology_files import (
    TopologyPaths,
    find_topology_files,
    is_delta,
    local_path,
)
from penstock.plans.topology.json_documents import is_document
from penstock.plans.topology.unpacked_texts import CODECS, unpacked_texts
from penstock.plans.vocabulary import TopologyForm

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


# Estimate the numbers of transformations and topologies in an input, before it is read.


_SAMPLED_FILES = 16
_SAMPLE_BYTES = 2**20
_PACKED_BYTES = 2**16
"""Sampled bytes of a compressed file; compression makes topologies 10 to 30 times smaller."""


def estimate_size(inputs: TopologyPaths) -> FleetSize:
    """Estimate an input's size from the footers of tables, or from the first MiB of some of its files.

    Unreadable files count as empty here; the reader reports them.
    """
    try:
        if inputs.folder is not None:
            folder = Path(local_path(inputs.folder))
            return FleetSize(_rows_of(folder / "transformations"), _rows_of(folder / "topologies"))
        files = [file for file in find_topology_files(inputs.paths) if os.path.isfile(file)]
        total = sum(os.path.getsize(file) for file in files)
        sampled = files[:: -(-len(files) // _SAMPLED_FILES) or 1]
        samples = [sample for sample in map(_sample, sampled) if sample is not None]
    except Exception:
        return FleetSize(0, 0)
    read_bytes = sum(size for size, _ in samples)
    if not read_bytes:
        return FleetSize(0, 0)
    transformations = sum(text.count(b'"kind"') + text.count(b'"in_edges"') for _, text in samples)
    # A sample without a line end comes from a file of one line.
    topologies = sum(_topologies(text) for _, text in samples if b"\n" in text)
    return FleetSize(transformations * total // read_bytes, max(len(files), topologies * total // read_bytes))


def _topologies(text: bytes) -> int:
    """Count the topologies of a sample, invalid lines included; a pretty-printed topology has many lines."""
    named = sum(text.count(f'"{form}"'.encode()) for form in TopologyForm)
    lines = sum(bool(line.strip()) for line in text.split(b"\n"))
    return named if is_document(text) else max(lines, named)


def _rows_of(table: Path) -> int:
    files: Iterable[Path] = table.rglob("*.parquet")
    if is_delta(table):  # its folder also has files of older versions
        from deltalake import DeltaTable

        actions = pa.RecordBatchReader.from_stream(DeltaTable(table).get_add_actions()).read_all()
        rows = actions["num_records"].to_pylist()
        if None not in rows:
            return sum(rows)
        files = [table / unquote(path) for path in actions["path"].to_pylist()]
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in files)


def _sample(file: str) -> tuple[int, bytes] | None:
    """Return the number of bytes read at the start of a file, and their text; None if reading fails."""
    codec = CODECS.get(os.path.splitext(file)[1].lower())
    try:
        with open(file, "rb") as opened:
            read_bytes = opened.read(_SAMPLE_BYTES if codec is None else _PACKED_BYTES)
    except OSError:
        return None
    return len(read_bytes), read_bytes if codec is None else _unpacked(read_bytes, codec)


def _unpacked(packed: bytes, codec: str) -> bytes:
    """Decompress the start of a file, up to _SAMPLE_BYTES and a little more."""
    text = bytearray()
    try:
        for chunk in unpacked_texts(pa.BufferReader(packed), codec, 2**14):
            text += chunk
            if len(text) >= _SAMPLE_BYTES:
                break
    except (OSError, pa.ArrowException):  # the sample ends inside the file, as expected
        pass
    return bytes(text)
