"""Which planner an input is for."""

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
    require_memory_to_plan,
    spark_fits,
)
from penstock.engine.store.is_local import is_local
from penstock.plans.errors import ConfigurationError, InputError, NotEnoughMemoryError
from penstock.plans.execution_graph.columnar.job_graph_arrays import TaskRows
from penstock.plans.topology.columnar.find_topology_files import find_topology_files, is_pipe, local_path
from penstock.plans.topology.columnar.open_given_table import is_delta
from penstock.plans.topology.columnar.read_topology_tables import holds_tables
from penstock.plans.topology.json_documents import is_document
from penstock.plans.topology.unpacked_texts import CODECS, unpacked_texts
from penstock.plans.vocabulary import TopologyForm

MARGIN = 1.25
"""How many times the estimate has to be there for AUTO to stay in this process: tasks are not in it, but for
those that a giant with a parallelism of 4 has."""

SMALL_ENOUGH_BYTES = 2**29
"""Memory that any worker can have."""


class Planner(StrEnum):
    """Who plans; the plans are the same."""

    AUTO = "auto"  #: columnar where each topology fits in memory, else joins
    JOINS = "joins"  #: joins and windows on Spark, any size, any file system
    COLUMNAR = "columnar"  #: arrays: in this process, or of whole topologies in Spark's workers
    FLINK = "flink"  #: columnar, and only what the real Flink plans in the same way


class Choice(NamedTuple):
    """The planner, for people why, and whether it takes Spark."""

    planner: Planner
    why: str
    on_spark: bool = False
    topologies: int = 0  #: about how many there are, by a sample of the input


def choose_planner(asked: Planner, inputs: Sequence[str], out: str, wants_spark: bool) -> Choice:
    """Who plans `inputs`, before anything is read. `wants_spark`: settings for Spark were given.

    On Spark, `choose_on_spark` decides once topologies are counted. Raises ConfigurationError if Flink was
    asked for where it cannot plan, and NotEnoughMemoryError where the input fits neither this process nor, if
    the choice is free, a local Spark.
    """
    obstacle = _obstacle([*inputs, out], wants_spark)
    if asked is Planner.FLINK and obstacle is not None:
        raise ConfigurationError(f"--planner {asked}: {obstacle}", "leave --planner out, or say joins")
    if asked is Planner.JOINS:
        return Choice(asked, "as asked", on_spark=True)
    if obstacle is not None:
        return Choice(asked, obstacle, on_spark=True)
    size = estimate_size(inputs)
    in_parts = asked is not Planner.FLINK and is_local(out)
    if asked is not Planner.AUTO:
        require_memory_to_plan(size, in_parts=in_parts)
        return Choice(asked, "as asked", topologies=size.topologies)
    try:
        margin = MARGIN if spark_fits() and not size.is_giant else 1.0
        require_memory_to_plan(size, margin, in_parts=in_parts)
    except NotEnoughMemoryError as error:
        return on_spark_instead(asked, error)
    why = "pipes are read in this process" if any(map(is_pipe, inputs)) else f"about {size} fit in memory"
    return Choice(Planner.COLUMNAR, why, topologies=size.topologies)


def on_spark_instead(asked: Planner, error: NotEnoughMemoryError) -> Choice:
    """Spark for what does not fit in this process; raises `error` unless `asked` is AUTO and Spark fits."""
    if asked is not Planner.AUTO or not spark_fits():
        raise error
    return Choice(Planner.AUTO, error.message, on_spark=True)


def choose_on_spark(asked: Planner, largest: int, most_tasks: int, worker_bytes: Callable[[], int]) -> Choice:
    """Who plans on Spark, where the largest topology has `largest` transformations or stream nodes, and one
    has `most_tasks` tasks if nothing is chained.

    `worker_bytes` finds out how much memory each Python worker can have, where that may be too little.

    Raises ConfigurationError if Flink was asked for.
    """
    if asked is Planner.FLINK:
        hint = "call penstock.engine.planning.plan_beside_flink.plan_beside_flink"
        raise ConfigurationError("planner flink: plans without Spark", hint)
    if asked in (Planner.JOINS, Planner.COLUMNAR):
        return Choice(asked, "as asked", on_spark=True)
    tasks = TaskRows(most_tasks, most_tasks, most_tasks)
    needed = largest * BYTES_OF_A_PLANNED_ROW + bytes_of_tasks(tasks)
    if needed > SMALL_ENOUGH_BYTES:
        there = worker_bytes()
        if needed > there:
            why = (
                f"a topology with {largest:,} transformations and up to {most_tasks:,} tasks takes about "
                f"{shown_bytes(needed)}, and a worker of Spark can have {shown_bytes(there)}"
            )
            return Choice(Planner.JOINS, why, on_spark=True)
    return Choice(Planner.COLUMNAR, "whole topologies in Spark's workers", on_spark=True)


def _obstacle(paths: Sequence[str], wants_spark: bool) -> str | None:
    if wants_spark:
        return "settings for Spark were given"
    for path in paths:
        try:
            local_path(path)
        except InputError:
            return f"{path} is not a local path"
    return None


# About how many transformations and topologies an input holds, before it is read.


_SAMPLED_FILES = 16
_SAMPLE_BYTES = 2**20
_PACKED_BYTES = 2**16
"""How much of a compressed file is sampled; compression makes topologies 10 to 30 times smaller."""


def estimate_size(inputs: Sequence[str]) -> FleetSize:
    """Out of the footers of tables, or the first MiB of some of the files.

    What cannot be read counts nothing here; it is for the reader to say.
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
    taken = sum(size for size, _ in samples)
    if not taken:
        return FleetSize(0, 0)
    transformations = sum(text.count(b'"kind"') + text.count(b'"in_edges"') for _, text in samples)
    # A sample without an end of a line is taken for a file of one line.
    topologies = sum(_topologies(text) for _, text in samples if b"\n" in text)
    return FleetSize(transformations * total // taken, max(len(files), topologies * total // taken))


def _topologies(text: bytes) -> int:
    """How many topologies, or lines that are none; a topology that is pretty-printed has many lines."""
    named = sum(text.count(f'"{form}"'.encode()) for form in TopologyForm)
    lines = sum(bool(line.strip()) for line in text.split(b"\n"))
    return named if is_document(text) else max(lines, named)


def _rows_of(table: Path) -> int:
    files: Iterable[Path] = table.rglob("*.parquet")
    if is_delta(table):  # has files that its newest version is without
        from deltalake import DeltaTable

        actions = pa.RecordBatchReader.from_stream(DeltaTable(table).get_add_actions()).read_all()
        rows = actions["num_records"].to_pylist()
        if None not in rows:
            return sum(rows)
        files = [table / unquote(path) for path in actions["path"].to_pylist()]
    return sum(pq.read_metadata(file).num_rows for file in files)


def _sample(file: str) -> tuple[int, bytes] | None:
    """How many bytes at the start of the file were read, and the text in them; None if they cannot be."""
    codec = CODECS.get(os.path.splitext(file)[1].lower())
    try:
        with open(file, "rb") as opened:
            taken = opened.read(_SAMPLE_BYTES if codec is None else _PACKED_BYTES)
    except OSError:
        return None
    return len(taken), taken if codec is None else _unpacked(taken, codec)


def _unpacked(packed: bytes, codec: str) -> bytes:
    """The start of a file, unpacked: up to _SAMPLE_BYTES and a little more."""
    text = bytearray()
    try:
        for more in unpacked_texts(pa.BufferReader(packed), codec, 2**14):
            text += more
            if len(text) >= _SAMPLE_BYTES:
                break
    except (OSError, pa.ArrowException):  # cut off, as expected
        pass
    return bytes(text)
