"""Blocks of topologies, and blocks packed as Arrow, for topologies too large for one partition."""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.tables.column_types import INT, LONG, TOPOLOGY

PART, BLOCK, ROWS = "part", "block", "rows"
PACKED = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field(PART, INT, False),
        pa.field(BLOCK, INT, False),
        pa.field(ROWS, pa.binary(), False),
    ]
)
"""One row per topology, part of a walk's input, and block. ROWS is an Arrow stream without the topology."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def packed(topology: int, part: int, block: int, rows: pa.Table) -> pa.RecordBatch:
    """Return one row of PACKED; the first column of `rows` is TOPOLOGY.

    Texts become indices into a dictionary of the block.
    """
    sink = pa.BufferOutputStream()
    encoded = _encoded(rows.drop_columns(TOPOLOGY))
    with pa.ipc.new_stream(sink, encoded.schema, options=_COMPRESSED) as stream:
        stream.write_table(encoded)
    keys = [pa.array([topology], LONG), pa.array([part], INT), pa.array([block], INT)]
    return pa.RecordBatch.from_arrays([*keys, pa.array([sink.getvalue().to_pybytes()])], schema=PACKED)


def blocks_of(batch: pa.RecordBatch) -> Iterator[tuple[int, int, pa.Buffer]]:
    """Yield (topology, part, ROWS) of a batch of PACKED, with ROWS uncopied (a scalar would be a copy)."""
    rows = batch.column(ROWS)
    _, offsets, data = rows.buffers()
    width = np.int64 if pa.types.is_large_binary(rows.type) else np.int32
    bounds = np.frombuffer(offsets, width)[rows.offset : rows.offset + len(rows) + 1].tolist()
    keys = (batch.column(name).to_pylist() for name in (TOPOLOGY, PART))
    for topology, part, start, end in zip(*keys, bounds[:-1], bounds[1:], strict=True):
        yield topology, part, data.slice(start, end - start)


def unpacked(topology: int, rows: pa.Buffer) -> pa.Table:
    """Return the rows given to `packed`, with texts dictionary-encoded and empty columns of type null.

    Blocks of one topology share the memory of the column TOPOLOGY.
    """
    table = pa.ipc.open_stream(rows).read_all()
    topologies = _repeated(topology, 1 << len(table).bit_length()).slice(0, len(table))
    return table.add_column(0, pa.field(TOPOLOGY, LONG, False), topologies)


@lru_cache(2)
def _repeated(topology: int, count: int) -> pa.Array:
    return pa.array(np.full(count, topology))


def pack_blocks(
    part: int, compact: Callable[[pa.Table], pa.Table]
) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow that packs rows sorted by topology and BLOCK, one row per block.

    `compact` is applied to each block first.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (topology, number), rows in _blocks(batches):
            yield packed(topology, part, number, compact(rows.drop_columns(BLOCK)))

    return run


def unpack_blocks(schema: pa.Schema) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow that unpacks PACKED blocks into rows of `schema`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for topology, _, rows in blocks_of(batch):
                yield from unpacked(topology, rows).cast(schema).to_batches()

    return run


def together(blocks: Iterator[pa.Table]) -> pa.Table:
    """Concatenate unpacked blocks into one table, whose texts share one dictionary."""
    return pa.concat_tables(blocks, promote_options="default").unify_dictionaries()


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[int, int], pa.Table]]:
    """Yield ((topology, block), rows) of batches sorted by both."""
    current: tuple[int, int] | None = None
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        topologies, numbers = (batch.column(name).to_numpy() for name in (TOPOLOGY, BLOCK))
        is_new = (topologies[1:] != topologies[:-1]) | (numbers[1:] != numbers[:-1])
        starts = np.flatnonzero(np.concatenate(([batch.num_rows > 0], is_new)))
        for start, end in pairwise([*starts.tolist(), batch.num_rows]):
            key = int(topologies[start]), int(numbers[start])
            if current is not None and current != key:
                yield current, pa.Table.from_batches(pending)
                pending = []
            current = key
            pending.append(batch.slice(start, end - start))
    if current is not None:
        yield current, pa.Table.from_batches(pending)


def _encoded(rows: pa.Table) -> pa.Table:
    for place, field in enumerate(rows.schema):
        column = rows.column(place)
        if field.nullable and column.null_count == len(column):
            rows = rows.set_column(place, field.name, pa.nulls(len(column)))
        elif pa.types.is_string(field.type):
            rows = rows.set_column(place, field.name, column.dictionary_encode())
    return rows


Batches = Iterable[pa.RecordBatch]

Parts = Callable[[Batches, Collection[str]], Iterator[tuple[str, pa.Table]]]
"""From batches of rows and names of tables to (table, some of its rows). Rows of one table are adjacent where
possible.
"""


class PackedTables(NamedTuple):
    """`tables` of a plan, which workers create from `rows` by `parts`."""

    rows: DataFrame
    tables: frozenset[str]
    parts: Parts


ROWS_PER_BLOCK = "spark.penstock.rowsPerBlock"
"""Setting of the session while it plans: the number of consecutive ids per block. If unset, a topology is one
block.
"""

NUMBERS = ("target", "id", "node", "vertex")
"""Columns that number nodes or vertices; the first one that a table has partitions it."""


def rows_per_block(frame: DataFrame) -> int | None:
    """Return the number of rows per block in this run, or None if every topology is one block."""
    setting = frame.sparkSession.conf.get(ROWS_PER_BLOCK, "")
    return int(setting) if setting else None


def block(number: str, rows: int) -> Column:
    """Return the block of a number."""
    return F.expr(f"`{number}` div {rows}")


def partitioned(frame: DataFrame, partitions: int) -> DataFrame:
    """Partition `frame` by topology, or by topology and number if it has numbers and topologies
    have blocks.
    """
    number = next((name for name in NUMBERS if name in frame.columns), None)
    if number is None or rows_per_block(frame) is None:
        return frame.repartition(partitions, TOPOLOGY)
    return frame.repartition(partitions, TOPOLOGY, number)
