"""The columnar planner inside Spark's Python workers, for one part of the topologies per call."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.layers import PlanOptions
from penstock.plans.tables import TABLES
from penstock.plans.topology.job_defaults import JobDefaults

ROWS_OF_A_BLOCK = 131_072
"""The most rows per block, so that no cell approaches its limit of 2 GiB."""

ROWS_TO_DIVIDE = 1_048_576
"""Rows of a partition that are divided at once: few enough for a worker's memory, enough for large blocks."""

PACKED = "part int, table string, block binary"
"""The part of the topologies that a block's rows belong to, their table, and the rows as an
Arrow IPC stream."""

PACKED_ARROW = pa.schema([("part", pa.int32()), ("table", pa.string()), ("block", pa.binary())])

Batches = Iterable[pa.RecordBatch]
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def divide(table: str, parts: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` over rows of `table` that yields PACKED, a topology in one of
    `parts`.
    """

    def divided(batches: Batches) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if len(batch))
        while first := next(filled, None):
            together, size = [first], len(first)
            while size < ROWS_TO_DIVIDE and (further := next(filled, None)):
                together.append(further)
                size += len(further)
            rows = pa.Table.from_batches(together).combine_chunks()
            part = pc.fill_null(rows["topology_id"], 0).to_numpy() % parts
            order = np.argsort(part, kind="stable")
            rows, part = rows.take(pa.array(order)), part[order]
            bounds = np.flatnonzero(np.diff(part, prepend=-1, append=parts)).tolist()
            for start, end in pairwise(bounds):
                yield from packed_rows(int(part[start]), table, rows.slice(start, end - start))

    return divided


def packed_rows(part: int, table: str, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield PACKED rows, one per batch, that contain `rows`; none for no rows."""
    for batch in rows.to_batches(max_chunksize=ROWS_OF_A_BLOCK):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as stream:
            stream.write_batch(batch)
        block = sink.getvalue()
        bounds = pa.array([0, block.size], pa.int32()).buffers()[1]
        columns = [
            pa.array([part], pa.int32()),
            pa.array([table]),
            pa.Array.from_buffers(pa.binary(), 1, [None, bounds, block]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PACKED_ARROW)


def packed_parts(batches: Batches, tables: Collection[str]) -> Iterator[tuple[str, pa.Table]]:
    """Yield (table, rows of it) for each block of PACKED rows of one of `tables`."""
    for batch in batches:
        for table, block in zip(batch["table"], batch["block"], strict=True):
            if table.as_py() in tables:
                yield table.as_py(), pa.ipc.open_stream(block.as_buffer()).read_all()


def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one table from PACKED rows, for `mapInArrow`."""
    for batch in batches:
        for block in batch.column("block"):
            yield from pa.ipc.open_stream(block.as_buffer())


if TYPE_CHECKING:
    import polars as pl

    from penstock.plans.execution_graph.job_graph_arrays import TaskRows
    from penstock.plans.planners.plan_in_parts import InParts
    from penstock.plans.topology.topologies_of_lines import TopologyTables

STAGE_SECONDS = "stage_seconds"
"""A table besides the plan's: (stage, seconds) of each part."""

COUNTS = "counts"
"""A table besides the plan's: one row of Counts for each part."""


class Counts(NamedTuple):
    """Topologies of a part. `orphans` have transformations but no row in topologies, `ids` are different
    topology_ids of planned ones."""

    orphans: int = 0
    planned: int = 0
    rejected: int = 0
    ids: int = 0


Read = Callable[[Mapping[str, pa.Table]], "TopologyTables"]
"""Rows of a part by table to the tables of the topology layer; tables without rows are absent."""


PlanPart = Callable[[dict[str, "pl.DataFrame"]], "InParts"]
"""From the tables of the topology layer, which are emptied, to the tables of the plan."""


def plan_packed_tables(read: Read, plan: PlanPart) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` from PACKED rows for `read` to PACKED rows of the plan.

    Tables STAGE_SECONDS and COUNTS are added to the plan's. The rows of a topology are all in one partition,
    which `plan` gets as a whole; `rejected` contains refusals of `read` and `plan`.
    """

    def planned(batches: Batches) -> Iterator[pa.RecordBatch]:
        _use_one_thread()
        blocks: dict[str, list[pa.RecordBatch]] = {}
        part = None
        for batch in batches:
            for row in range(len(batch)):
                part = batch["part"][row].as_py()
                stream = pa.ipc.open_stream(batch["block"][row].as_buffer())
                blocks.setdefault(batch["table"][row].as_py(), []).extend(stream)
        if part is None:
            return
        started = time.monotonic()
        rows = {name: pa.Table.from_batches(table_batches) for name, table_batches in blocks.items()}
        del blocks
        topology_tables = read(rows)
        orphans = topology_tables.inputs - (len(rows["topologies"]) if "topologies" in rows else 0)
        del rows
        yield from _planned_part(part, topology_tables, orphans, started, plan)

    return planned


def plan_texts(job_defaults: JobDefaults, plan: PlanPart) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """As plan_packed_tables, from TopologyTexts: topologies with equal keys are all in one partition."""

    def planned(batches: Batches) -> Iterator[pa.RecordBatch]:
        _use_one_thread()
        filled = [batch for batch in batches if len(batch)]
        if not filled:
            return
        from penstock.plans.topology.lines_batch import TopologyTexts, read_topology_texts

        started = time.monotonic()
        texts = pa.Table.from_batches(filled)
        filled.clear()
        topology_tables = read_topology_texts(TopologyTexts(texts), job_defaults)
        del texts
        yield from _planned_part(0, topology_tables, 0, started, plan)

    return planned


def _use_one_thread() -> None:
    """A worker is one of several on its machine. polars reads this when it is first imported."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _planned_part(
    part: int, topology_tables: "TopologyTables", orphans: int, started: float, plan: PlanPart
) -> Iterator[pa.RecordBatch]:
    """Yield PACKED rows of a part's plan, STAGE_SECONDS and COUNTS; reading it began at `started`."""
    frames = topology_tables._asdict()
    del topology_tables, frames["inputs"]
    seconds = {"read_and_validate": time.monotonic() - started}
    result = plan(frames)
    seconds |= result.seconds
    stages = {"stage": list(seconds), "seconds": list(seconds.values())}
    yield from packed_rows(part, STAGE_SECONDS, pa.table(stages))
    counts = Counts(orphans)
    if "topologies" in result.tables:  # a measurement has other tables
        topologies = result.tables["topologies"]
        ids = pc.count_distinct(topologies["topology_id"]).as_py()
        counts = Counts(orphans, len(topologies), len(result.tables["rejected"]), ids)
    yield from packed_rows(part, COUNTS, pa.Table.from_pylist([counts._asdict()]))
    for name in list(result.tables):
        yield from packed_rows(part, name, result.tables.pop(name))


def planned_by_flinks_rules(options: PlanOptions, before_tasks: "Callable[[TaskRows], None]") -> PlanPart:
    """plan_in_parts, imported in workers on first use."""

    def plan(topology_tables: dict[str, "pl.DataFrame"]) -> "InParts":
        from penstock.plans.planners.plan_in_parts import plan_in_parts

        return plan_in_parts(topology_tables, options, before_tasks=before_tasks)

    return plan


def validated_tables(rows: Mapping[str, pa.Table]) -> "TopologyTables":
    """Return tables of the topology layer that have been validated before."""
    from penstock.plans.frames.polars_frames import empty, from_arrow
    from penstock.plans.topology.topologies_of_lines import TopologyTables

    tables = {
        name: from_arrow(rows[name]) if name in rows else empty(name)
        for name in TopologyTables._fields
        if name != "inputs"
    }
    return TopologyTables(**tables, inputs=len(tables["topologies"]))


def validate_tables(rows: Mapping[str, pa.Table]) -> "TopologyTables":
    """Return the valid topologies of the tables `topologies` and `transformations`. As
    read_topology_tables.
    """
    from penstock.plans.topology.read_topology_tables import read_topology_tables

    names = ("topologies", "transformations")
    return read_topology_tables(*(rows.get(name, TABLES[name].empty_table()) for name in names))
