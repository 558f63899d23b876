"""Run a sequential walk over whole topologies."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.plans.frames.packed_blocks import (
    BLOCK,
    PACKED,
    PART,
    block,
    blocks_of,
    pack_blocks,
    packed,
    rows_per_block,
    together,
    unpack_blocks,
    unpacked,
)
from penstock.plans.tables.column_types import TOPOLOGY

Compact = Callable[[pa.Table], pa.Table]
Walk = Callable[..., Iterable[pa.RecordBatch]]
"""From one table per part, each with whole topologies, to batches of results. If a topology has blocks, a
text column is a dictionary, and a column without values has the type null.
"""


def unchanged(rows: pa.Table) -> pa.Table:
    """Return rows that contain only columns the walk needs."""
    return rows


class Part:
    """Rows read by a walk, either nodes or edges.

    `number`: the column that numbers nodes or vertices (of an edge: its source), by which rows are sorted
    within a topology, then by `order`. `compact` removes data that the walk does not need, such as texts; it
    gets some of the rows at a time.
    """

    def __init__(self, rows: DataFrame, number: str, *order: str, compact: Compact = unchanged) -> None:
        self.rows, self.number, self.order, self.compact = rows, number, order, compact


def whole_topologies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Regroup batches of rows sorted by topology into tables that contain only whole topologies.

    A topology of many batches is assembled once, after its last row has arrived, so that the work stays
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


def walk_topologies(parts: Sequence[Part], walk: Walk, schema: pa.Schema) -> DataFrame:
    """Return rows of `schema`, the results of `walk` over whole topologies.

    Parts must be partitioned by topology, unless topologies have blocks (see frames.packed_blocks). Then
    blocks are sorted and packed in parallel, one task per topology walks, and its results are unpacked in
    parallel again, so that this task touches few values, however many rows there are.
    """
    size = rows_per_block(parts[0].rows)
    return _walk_rows(parts, walk, schema) if size is None else _walk_blocks(parts, walk, schema, size)


def _walk_rows(parts: Sequence[Part], walk: Walk, schema: pa.Schema) -> DataFrame:
    columns = [part.rows.columns for part in parts]
    compacts = [part.compact for part in parts]
    labelled = [part.rows.select("*", F.lit(place).alias(PART)) for place, part in enumerate(parts)]
    rows = labelled[0]
    for further in labelled[1:]:
        rows = rows.unionByName(further, allowMissingColumns=True)
    order = dict.fromkeys(name for part in parts for name in (part.number, *part.order))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_topologies(batches):
            tables = [
                compact(table.filter(pc.field(PART) == place).select(names))
                for place, (names, compact) in enumerate(zip(columns, compacts, strict=True))
            ]
            for result in walk(*tables):
                yield from pa.Table.from_batches([result]).cast(schema).to_batches()

    return rows.sortWithinPartitions(TOPOLOGY, PART, *order).mapInArrow(run, from_arrow_schema(schema))


def _walk_blocks(parts: Sequence[Part], walk: Walk, schema: pa.Schema, size: int) -> DataFrame:
    packed_parts = [_packed(part, place, size) for place, part in enumerate(parts)]
    rows = packed_parts[0]
    for further in packed_parts[1:]:
        rows = rows.unionByName(further)
    empty = [part.compact(to_arrow_schema(part.rows.schema).empty_table()) for part in parts]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with _freed_memory_given_back():
            for topology, blocks in _each_topology(batches):
                tables = [
                    together(unpacked(topology, rows) for rows in blocks.pop(part))
                    if part in blocks
                    else none
                    for part, none in enumerate(empty)
                ]
                place, walked = 0, walk(*tables)
                del tables  # a walk frees columns that it has read
                for result in walked:
                    for start in range(0, len(result), size):
                        yield packed(topology, 0, place, pa.Table.from_batches([result.slice(start, size)]))
                        place += 1

    by_topology = rows.repartition(TOPOLOGY)
    packed_rows = by_topology.sortWithinPartitions(TOPOLOGY, PART, BLOCK).mapInArrow(
        run, from_arrow_schema(PACKED)
    )
    return _spread(packed_rows).mapInArrow(unpack_blocks(schema), from_arrow_schema(schema))


@contextmanager
def _freed_memory_given_back() -> Iterator[None]:
    """Use an allocator for Arrow that soon returns memory freed by a walk to the operating system.

    With the default allocator, the walk over ten million nodes takes a quarter more memory.
    """
    usual = pa.default_memory_pool()
    try:
        pa.set_memory_pool(pa.jemalloc_memory_pool())
    except NotImplementedError:  # absent from some builds of Arrow
        pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(usual)


def _each_topology(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, dict[int, list[pa.Buffer]]]]:
    """Yield (topology, part to its packed blocks) of sorted rows of PACKED."""
    packed_rows = chain.from_iterable(map(blocks_of, batches))
    for topology, topology_rows in groupby(packed_rows, key=itemgetter(0)):
        yield topology, _blocks_by_part(topology_rows)


def _blocks_by_part(rows: Iterator[tuple[int, int, pa.Buffer]]) -> dict[int, list[pa.Buffer]]:
    """Group blocks by part, in a separate function so that no reference to the last block survives a walk."""
    blocks: dict[int, list[pa.Buffer]] = {}
    for _, part, block_of_part in rows:
        blocks.setdefault(part, []).append(block_of_part)
    return blocks


def _packed(part: Part, place: int, size: int) -> DataFrame:
    numbered = part.rows.select("*", block(part.number, size).cast("int").alias(BLOCK))
    in_order = _spread(numbered).sortWithinPartitions(TOPOLOGY, BLOCK, part.number, *part.order)
    return in_order.mapInArrow(pack_blocks(place, part.compact), from_arrow_schema(PACKED))


def _spread(blocks: DataFrame) -> DataFrame:
    """Deal `blocks` to the partitions in turn; a hash would give some partitions several and others none."""
    partitions = int(blocks.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    place = F.pmod(F.hash(TOPOLOGY).cast("bigint") + F.col(BLOCK), F.lit(partitions))
    return blocks.repartitionById(partitions, place.cast("int"))
