"""Sinks at the end of a chain: what they write, and what they hand to the driver as terminal rows.

Source: org.apache.flink.streaming.runtime.operators.sink.SinkWriterOperator,
org.apache.flink.streaming.api.operators.collect.CollectSinkFunction.
"""

import pickle
from collections.abc import Callable
from time import monotonic
from typing import Any

import pyarrow as pa

from penstock.operators.chain.describe_error import misfit
from penstock.operators.chain.operator import MIN_WATERMARK, Operator, Timestamps, Values
from penstock.operators.chain.user_errors import EnoughResults
from penstock.operators.common.entry_size import value_bytes
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.sink import PrintSink, Sink
from penstock.operators.exchange.blocks import encode_batch, encode_values
from penstock.operators.exchange.channel_writer import CUT_OFF, FLUSH_SECONDS, MISFIT, ChannelRow

_BLOCK_BYTES = 8 << 20


class TerminalOperator(Operator):
    """An operator whose results go to the driver: rows of a negative edge, which no JobVertex reads."""

    def __init__(self, edge: int) -> None:
        self.edge = edge

    def attach(self, emit: Callable[[ChannelRow], None]) -> None:
        """Called after `setup`: where its rows go."""
        self._emit = emit
        self._sequence = 0

    def process_watermark(self, watermark: int) -> None:
        """Nothing comes after a sink."""

    def send(self, payload: bytes) -> None:
        """A row for the driver."""
        self._emit(ChannelRow(self.edge, 0, MIN_WATERMARK, self.context.subtask, self._sequence, payload))
        self._sequence += 1


class CollectOperator(TerminalOperator):
    """Brings the records themselves to the driver, in blocks; with a `limit` the first ones only.

    Raises EnoughResults once the limit is reached.
    """

    _BLOCK_RECORDS = 16_384

    def __init__(self, edge: int, type_info: TypeInformation | None, limit: int | None = None) -> None:
        super().__init__(edge)
        self.type_info, self.limit = type_info, limit

    def open(self) -> None:
        """Start with nothing buffered."""
        self._values: Values = []
        self._left = self.limit
        self._bytes = 0
        self._flushed_at = monotonic()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer, and send full blocks."""
        if self._left is not None:
            values = values[: self._left]
            self._left -= len(values)
        self._values.extend(values)
        if values:
            self._bytes += value_bytes(values[-1]) * len(values)
        in_time = monotonic() - self._flushed_at < FLUSH_SECONDS
        if len(self._values) >= self._BLOCK_RECORDS or self._bytes >= _BLOCK_BYTES or not in_time:
            self._flush()
        if self._left == 0:
            self._flush()
            raise EnoughResults

    def finish(self) -> None:
        self._flush()

    def tell_cut_off(self) -> None:
        """Send the rest, and tell the driver that more may be missing."""
        self._flush()
        self.send(CUT_OFF)

    def _flush(self) -> None:
        if self._values:
            try:
                block = self._encoded(self._values)
            except Exception as error:
                raise self.failed(error, misfit(self._values, self._encoded), MISFIT) from error
            self.send(block)
            self._values, self._bytes, self._flushed_at = [], 0, monotonic()

    def _encoded(self, values: Values) -> bytes:
        return encode_values(values, None, self.type_info, MIN_WATERMARK)


class CollectBatchesOperator(TerminalOperator):
    """Brings record batches to the driver as they are; with a `limit` the first rows only.

    Raises EnoughResults once the limit is reached.
    """

    columnar = True

    def __init__(self, edge: int, limit: int | None = None) -> None:
        super().__init__(edge)
        self.limit = limit

    def open(self) -> None:
        """Start without any row taken."""
        self._left = self.limit

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        self.send(encode_batch(batch, None, MIN_WATERMARK))
        if self._left == 0:
            raise EnoughResults

    def tell_cut_off(self) -> None:
        """Tell the driver that more rows may be missing."""
        self.send(CUT_OFF)


class PrintOperator(TerminalOperator):
    """Makes lines from records; the driver prints them."""

    def __init__(self, edge: int, sink: PrintSink) -> None:
        super().__init__(edge)
        self.sink = sink
        self.wants_declared_types = True

    def process(self, values: Values, timestamps: Timestamps) -> None:
        try:
            lines = self.sink.lines(values, self.context)
        except BaseException as error:
            record = misfit(values, lambda part: self.sink.lines(part, self.context))
            raise self.failed(error, record, "printing") from error
        self.send(pickle.dumps(lines, protocol=5))


class SinkWriterOperator(TerminalOperator):
    """Writes records; what is to be committed goes to the driver."""

    def __init__(self, edge: int, sink: Sink) -> None:
        super().__init__(edge)
        self.sink = sink
        self.wants_declared_types = not sink.columnar  # others encode by type themselves

    def open(self) -> None:
        """Open a writer for this attempt."""
        self._writer = self.sink.writer(self.context)
        self._finished = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        try:
            self._writer.write(values, timestamps)
        except BaseException as error:
            raise self.failed(error, values[0]) from error

    def finish(self) -> None:
        """Close the files; send the committables."""
        committables = self._writer.finish()
        self._finished = True
        self.send(pickle.dumps(committables, protocol=5))

    def close(self) -> None:
        """Without `finish`, remove what was written."""
        if hasattr(self, "_writer") and not self._finished:
            self._writer.abort()


class ColumnarSinkWriterOperator(SinkWriterOperator):
    """The same for sinks that take record batches."""

    columnar = True

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        self._writer.write_batch(batch, timestamps)


def terminal_operator(edge: int, sink: Any, type_info: TypeInformation | None, *, columnar: bool) -> Operator:
    """The operator for `sink` as it stands at the end of a stream; `columnar`: it comes in record batches."""
    from penstock.operators.connectors.sink import CollectSink

    if isinstance(sink, CollectSink):
        if columnar:
            return CollectBatchesOperator(edge, sink.limit)
        return CollectOperator(edge, type_info, sink.limit)
    if isinstance(sink, PrintSink):
        return PrintOperator(edge, sink)
    if columnar and sink.columnar:
        return ColumnarSinkWriterOperator(edge, sink)
    return SinkWriterOperator(edge, sink)
