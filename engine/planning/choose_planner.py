"""Choose the planner for an input, in this process or on Spark."""

import os
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.machine.available_memory import shown_bytes
from penstock.engine.planning.memory_estimate import (
    BYTES_OF_A_PLANNED_ROW,
    FleetSize,
    bytes_of_tasks,
    parts_at_once,
    require_memory_to_plan,
    spark_fits,
)
from penstock.engine.store.is_local import is_local
from penstock.plans.errors import ConfigurationError, InputError, NotEnoughMemoryError
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.topology.find_topology_files import find_topology_files, is_pipe, local_path
from penstock.plans.topology.json_documents import is_document
from penstock.plans.topology.open_given_table import is_delta
from penstock.plans.topology.read_topology_tables import holds_tables
from penstock.plans.topology.unpacked_texts import CODECS, unpacked_texts
from penstock.plans.vocabulary import TopologyForm

MARGIN = 1.25
"""Multiple of the estimate that must be free for AUTO to stay in this process. The estimate leaves out tasks,
except those of a giant with a parallelism of 4."""

SMALL_ENOUGH_BYTES = 2**29
"""Any worker has this much memory."""


class Planner(StrEnum):
    """The planners of Penstock: `planner` of `plan`. All give the same rows.

    Members: auto, process, workers, blocks, columnar, joins, flink.
    """

    AUTO = "auto"  #: where it costs least: process, workers, or blocks
    PROCESS = "process"  #: in this process, over arrays
    WORKERS = "workers"  #: the same in Spark's Python workers, each with a part of the topologies
    BLOCKS = "blocks"  #: on Spark: topologies too large for a worker in blocks, others as workers
    JOINS = "joins"  #: the former name of blocks
    COLUMNAR = "columnar"  #: process or workers
    FLINK = "flink"  #: process, checked by the real Flink: topologies it plans differently are rejected


ON_SPARK = (Planner.WORKERS, Planner.BLOCKS, Planner.JOINS)
"""Planners that need Spark."""


class ChosenPlanner(NamedTuple):
    """A planner, the reason shown to users, and whether it needs Spark."""

    planner: Planner
    why: str
    on_spark: bool = False
    topologies: int = 0  #: an estimate from a sample of the input

    @property
    def by_blocks(self) -> bool:
        """Whether giants are planned in blocks."""
        return self.planner in (Planner.BLOCKS, Planner.JOINS)

    @property
    def name(self) -> str:
        """The name that messages use, which is none of the former ones."""
        if self.planner is Planner.COLUMNAR:
            return str(Planner.WORKERS if self.on_spark else Planner.PROCESS)
        return str(Planner.BLOCKS if self.by_blocks else self.planner)


def choose_planner(requested: Planner, inputs: Sequence[str], out: str, wants_spark: bool) -> ChosenPlanner:
    """Choose the planner of `inputs` before they are read. `wants_spark`: settings for Spark were given.

    For inputs on Spark, `choose_on_spark` decides once topologies are counted. Raises ConfigurationError if
    planner `flink` cannot plan this input, and NotEnoughMemoryError if the input does not fit in this process
    and, with AUTO, a local Spark does not fit either.
    """
    obstacle = _obstacle([*inputs, out], wants_spark)
    if requested in (Planner.FLINK, Planner.PROCESS) and obstacle is not None:
        raise ConfigurationError(f"--planner {requested}: {obstacle}", "leave --planner out, or say workers")
    if requested in ON_SPARK:
        return ChosenPlanner(requested, "as asked", on_spark=True)
    if obstacle is not None:
        return ChosenPlanner(requested, obstacle, on_spark=True)
    size = estimate_size(inputs)
    in_parts = requested is not Planner.FLINK and is_local(out)
    if requested is not Planner.AUTO:
        require_memory_to_plan(size, in_parts=in_parts)
        return ChosenPlanner(requested, "as asked", topologies=size.topologies)
    try:
        margin = MARGIN if spark_fits() and not size.is_giant else 1.0
        require_memory_to_plan(size, margin, in_parts=in_parts)
    except NotEnoughMemoryError as error:
        return on_spark_instead(requested, error)
    why = "pipes are read in this process" if any(map(is_pipe, inputs)) else f"about {size} fit in memory"
    return ChosenPlanner(Planner.COLUMNAR, why, topologies=size.topologies)


def on_spark_instead(requested: Planner, error: NotEnoughMemoryError) -> ChosenPlanner:
    """Choose Spark for input too large for this process; raise `error` unless AUTO may choose and it fits."""
    if requested is not Planner.AUTO or not spark_fits():
        raise error
    return ChosenPlanner(Planner.AUTO, error.message, on_spark=True)


def choose_on_spark(
    requested: Planner, largest: int, most_tasks: int, worker_bytes: Callable[[], int]
) -> ChosenPlanner:
    """Choose the planner on Spark by the largest topology and its tasks.

    `largest`: most transformations or stream nodes of a topology; `most_tasks`: most tasks of a topology if
    nothing is chained. `worker_bytes` measures the memory of each Python worker; it is called only if that
    may be too little. Raises ConfigurationError if `requested` is FLINK, which plans without Spark.
    """
    if requested in (Planner.FLINK, Planner.PROCESS):
        if requested is Planner.PROCESS:
            hint = "call penstock.engine.planning.plan_in_process.plan_in_process"
            raise ConfigurationError("planner process plans without Spark", hint)
        hint = "call penstock.engine.planning.plan_beside_flink.plan_beside_flink"
        raise ConfigurationError("planner flink plans without Spark", hint)
    if requested in (*ON_SPARK, Planner.COLUMNAR):
        return ChosenPlanner(requested, "as asked", on_spark=True)
    tasks = TaskRows(most_tasks, most_tasks, most_tasks)
    needed = largest * BYTES_OF_A_PLANNED_ROW + bytes_of_tasks(tasks)
    if needed > SMALL_ENOUGH_BYTES:
        worker_memory = worker_bytes()
        if needed > worker_memory:
            why = (
                f"a topology with {largest:,} transformations and up to {most_tasks:,} tasks takes about "
                f"{shown_bytes(needed)}, and a worker of Spark has {shown_bytes(worker_memory)}"
            )
            return ChosenPlanner(Planner.BLOCKS, why, on_spark=True)
    return ChosenPlanner(Planner.COLUMNAR, "whole topologies in Spark's workers", on_spark=True)


# Topologies of a Spark session: whether planning them here costs less than in its workers.


# Measured on 2 cores, as CPU time, with fleets of 3 and of 19 transformations for each topology
# (docs/scaling.md). A row below is a transformation, or a share of what a topology takes by itself.

ROWS_OF_A_TOPOLOGY = 4
"""A topology takes as long as this many transformations, besides its own."""

COLLECT_MICROSECONDS = 2.0
"""Of one core, for each row of DataFrames on its way from Spark to this process."""

READ_MICROSECONDS = 7.0
"""Of one core of this process, for each row: topologies are read by one thread."""

PLAN_MICROSECONDS = 4.0
"""Of one core, for each row: parts are planned on all cores, four at most."""

WORKER_MICROSECONDS = 14.0
"""Of one of Spark's cores, for each row that is exchanged, read, planned and packed."""

WORKERS_SECONDS = 1.0
"""What planning in workers takes whatever the size: three jobs."""

HEAP_SHARE = 1 / 8
"""Of the driver's heap, for rows on their way to this process: Spark loses results that it cannot hold."""


class GivenToSpark(NamedTuple):
    """Topologies of a session: transformations, topologies, and the bytes to collect (0: they are here)."""

    transformations: int
    topologies: int
    collected_bytes: int = 0


def planned_here(given: GivenToSpark, sparks_cores: int, heap: int | None) -> str | None:
    """Return the reason to plan topologies of a session in this process, or None if workers do it.

    This process plans if that takes less time, by the figures above, and if everything fits: rows into
    HEAP_SHARE of the driver's `heap` (None: unknown) on their way, the plan into this process' memory, with
    the margin of AUTO. `sparks_cores`: tasks that Spark runs at once, here or on a cluster.
    """
    transformations, topologies, collected_bytes = given
    if heap is not None and collected_bytes > heap * HEAP_SHARE:
        return None
    rows = transformations + topologies * ROWS_OF_A_TOPOLOGY
    collecting = COLLECT_MICROSECONDS if collected_bytes else 0.0
    here = rows * (collecting + READ_MICROSECONDS + PLAN_MICROSECONDS / parts_at_once()) / 1e6
    in_workers = WORKERS_SECONDS + rows * WORKER_MICROSECONDS / sparks_cores / 1e6
    if here > in_workers:
        return None
    try:
        require_memory_to_plan(FleetSize(transformations, topologies), MARGIN)
    except NotEnoughMemoryError:
        return None
    return f"takes about {max(here, 0.1):.1f} s in this process, {in_workers:.1f} s in Spark's workers"


def _obstacle(paths: Sequence[str], wants_spark: bool) -> str | None:
    if wants_spark:
        return "settings for Spark were given"
    for path in paths:
        try:
            local_path(path)
        except InputError:
            return f"{path} is not a local path"
    return None


# Estimate the numbers of transformations and topologies in an input, before it is read.


_SAMPLED_FILES = 16
_SAMPLE_BYTES = 2**20
_PACKED_BYTES = 2**16
"""Sampled bytes of a compressed file; compression makes topologies 10 to 30 times smaller."""


def estimate_size(inputs: Sequence[str]) -> FleetSize:
    """Estimate an input's size from the footers of tables, or from the first MiB of some of its files.

    Unreadable files count as empty here; the reader reports them.
    """
    try:
        if len(inputs) == 1 and holds_tables(inputs[0]):
            folder = Path(local_path(inputs[0]))
            return FleetSize(_rows_of(folder / "transformations"), _rows_of(folder / "topologies"))
        files = [file for file in find_topology_files(inputs) if os.path.isfile(file)]
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
    return sum(pq.read_metadata(file).num_rows for file in files)


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
