"""Rows on their way from operators to Spark, in batches of a bounded size."""

from collections.abc import Callable

import pyarrow as pa

from penstock.operators.common.without_pandas import without_pandas
from penstock.operators.exchange.channel_writer import EXCHANGE_SCHEMA, ChannelRow
from penstock.operators.task.send_results import ResultSender

_BATCH_BYTES = 8 << 20


class OutgoingRows:
    """Gathers rows and hands them to `put`, which returns when the reader wants more.

    Rows of the edges that `sender` sends go there, at once.
    """

    def __init__(self, put: Callable[[pa.RecordBatch], None], sender: ResultSender | None = None) -> None:
        self._put, self._sender = put, sender
        self._rows: list[ChannelRow] = []
        self._bytes = 0

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Put a batch of results at the end: what a vertex gives that ends in a DataFrame."""
        self._put(batch)

    def append(self, row: ChannelRow) -> None:
        if self._sender is not None and row.edge in self._sender.edges:
            self._sender.send(row)
            return
        self._rows.append(row)
        self._bytes += len(row.payload)
        if self._bytes >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand over all rows there are."""
        if self._rows:
            rows, self._rows, self._bytes = self._rows, [], 0
            self._put(_batch(rows))


@without_pandas()
def _batch(rows: list[ChannelRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, EXCHANGE_SCHEMA, strict=True)],
        schema=EXCHANGE_SCHEMA,
    )
