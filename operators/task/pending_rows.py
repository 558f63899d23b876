"""Rows on their way from operators, which push, to Spark, which pulls; on disk where they are many."""

import pickle
import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from operators.exchange.channel_writer import EXCHANGE_SCHEMA, Row

_BATCH_BYTES = 8 << 20


class PendingRows:
    """A queue of rows: what an operator pushes at once (all windows at the end, say) may exceed memory."""

    def __init__(self, memory_bytes: int = 64 << 20) -> None:
        self._memory_bytes = memory_bytes
        self._rows: list[Row] = []
        self._bytes = 0
        self._spilled: IO[bytes] | None = None
        self._batches: list[pa.RecordBatch] = []

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Put a batch of results at the end: what a vertex yields that ends in a DataFrame."""
        self._batches.append(batch)

    def append(self, row: Row) -> None:
        """Put a row at the end."""
        self._rows.append(row)
        self._bytes += len(row.payload)
        if self._bytes > self._memory_bytes:
            if self._spilled is None:
                self._spilled = tempfile.TemporaryFile(prefix="penstock-rows-")  # noqa: SIM115
            for one in self._rows:
                pickle.dump(tuple(one), self._spilled, protocol=5)
            self._rows, self._bytes = [], 0

    def drain(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, in batches of a bounded size."""
        batches, self._batches = self._batches, []
        yield from batches
        if self._spilled is None and not self._rows:
            return
        some: list[Row] = []
        size = 0
        for row in self._all():
            some.append(row)
            size += len(row.payload)
            if size >= _BATCH_BYTES:
                yield _batch(some)
                some, size = [], 0
        if some:
            yield _batch(some)

    def _all(self) -> Iterator[Row]:
        if self._spilled is not None:
            spilled, self._spilled = self._spilled, None
            spilled.seek(0)
            with spilled:
                while True:
                    try:
                        yield Row(*pickle.load(spilled))
                    except EOFError:
                        break
        rows, self._rows, self._bytes = self._rows, [], 0
        yield from rows


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, EXCHANGE_SCHEMA, strict=True)],
        schema=EXCHANGE_SCHEMA,
    )
