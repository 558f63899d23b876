"""Runs a sequential walk as one Arrow pass over whole topologies."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from plans.joins.blocks import block, rows_per_block
from plans.joins.packed_blocks import BLOCK, PACKED, ROWS, pack_blocks, packed, unpack_blocks, unpacked
from plans.tables.column_types import TOPOLOGY

Walk = Callable[[pa.Table], pa.RecordBatch]
Compact = Callable[[pa.Table], pa.Table]

_NUMBERS = ("id", "node", "vertex")
"""Columns that number the rows of walks; an edge stands with its source."""


def unchanged(rows: pa.Table) -> pa.Table:
    """Rows that hold nothing but what the walk needs."""
    return rows


def whole_topologies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Regroups batches of rows sorted by topology into tables that hold only whole topologies.

    A topology of many batches is put together once, when its last row has come, so that the work stays
    linear.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        topologies = batch.column(TOPOLOGY).to_numpy()
        boundaries = np.flatnonzero(topologies[1:] != topologies[:-1])
        starts_new = bool(pending) and pending[-1].column(TOPOLOGY)[-1].as_py() != int(topologies[0])
        if starts_new:
            yield pa.Table.from_batches(pending)
            pending = []
        if len(boundaries):
            last = int(boundaries[-1]) + 1
            yield pa.Table.from_batches([*pending, batch.slice(0, last)])
            pending = [batch.slice(last)]
        else:
            pending.append(batch)
    if pending:
        yield pa.Table.from_batches(pending)


def walk_topologies(
    rows: DataFrame, order: list[str], walk: Walk, schema: pa.Schema, compact: Compact = unchanged
) -> DataFrame:
    """`walk` applied to all rows of whole topologies, sorted by topology and `order`.

    `rows` must be partitioned by topology, unless topologies have blocks (see plans.joins.blocks). `walk`
    gets a table of one or more whole topologies and gives a batch of `schema`, where a dictionary may stand
    for a column of texts. `compact` is applied to some of the rows at a time before: it takes out what the
    walk has no need of, such as texts, in parallel where topologies have blocks.
    """
    size = rows_per_block(rows)
    if size is not None:
        return _walk_blocks(rows, order, walk, schema, compact, size)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_topologies(batches):
            yield from _of_schema(walk(compact(table)), schema)

    return rows.sortWithinPartitions(TOPOLOGY, *order).mapInArrow(run, from_arrow_schema(schema))


def _walk_blocks(
    rows: DataFrame, order: list[str], walk: Walk, schema: pa.Schema, compact: Compact, size: int
) -> DataFrame:
    """Blocks are sorted and packed in parallel, a task for each topology walks, and what it finds is
    unpacked in parallel again: one task touches few values, however many rows there are."""
    number = next(name for name in _NUMBERS if name in rows.columns)
    numbered = rows.select("*", block(number, size).cast("int").alias(BLOCK))
    blocks = _spread(numbered).sortWithinPartitions(TOPOLOGY, BLOCK, *order)
    packed_rows = blocks.mapInArrow(pack_blocks(compact), from_arrow_schema(PACKED))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_topologies(batches):
            topology = table.column(TOPOLOGY)[0].as_py()
            whole = pa.concat_tables(unpacked(value) for value in table.column(ROWS)).unify_dictionaries()
            del table
            found = walk(whole)
            del whole
            for place, start in enumerate(range(0, len(found), size)):
                yield packed(topology, place, pa.Table.from_batches([found.slice(start, size)]))

    by_topology = packed_rows.repartition(TOPOLOGY).sortWithinPartitions(TOPOLOGY, BLOCK)
    found = by_topology.mapInArrow(run, from_arrow_schema(PACKED))
    return _spread(found).mapInArrow(unpack_blocks(schema), from_arrow_schema(schema))


def _spread(blocks: DataFrame) -> DataFrame:
    """`blocks` dealt to the partitions in turn: a hash would give some partitions several, others none."""
    partitions = int(blocks.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    place = F.pmod(F.hash(TOPOLOGY).cast("bigint") + F.col(BLOCK), F.lit(partitions))
    return blocks.repartitionById(partitions, place.cast("int"))


def _of_schema(found: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_batches([found]).cast(schema).to_batches()
