"""Tables as blocks that Spark shuffles: many rows of one table, as Arrow, in one cell."""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS_OF_A_BLOCK = 131_072
"""The most rows of a block, so that no cell comes near its limit of 2 GiB."""

ROWS_TO_DIVIDE = 1_048_576
"""Rows of a partition that are divided at once: few enough for a worker's memory, enough for large blocks."""

PACKED = "part int, table string, block binary"
"""Which part of the topologies a block's rows belong to, their table, and the rows as an Arrow IPC stream."""

PACKED_ARROW = pa.schema([("part", pa.int32()), ("table", pa.string()), ("block", pa.binary())])

Batches = Iterable[pa.RecordBatch]
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


def divide(table: str, parts: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over rows of `table`; gives PACKED. All rows of a topology go into one of `parts`."""

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
    """PACKED rows, one per batch, that hold `rows`; none for no rows."""
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
    """(table, rows of it) for each block of PACKED rows that is of one of `tables`."""
    for batch in batches:
        for table, block in zip(batch["table"], batch["block"], strict=True):
            if table.as_py() in tables:
                yield table.as_py(), pa.ipc.open_stream(block.as_buffer()).read_all()


def unpack(batches: Batches) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over PACKED rows of one table; gives its rows."""
    for batch in batches:
        for block in batch.column("block"):
            yield from pa.ipc.open_stream(block.as_buffer())
