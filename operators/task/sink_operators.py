"""Sinks at the end of a chain: what they write, and what they hand to the driver as terminal rows.

Source: org.apache.flink.streaming.runtime.operators.sink.SinkWriterOperator,
org.apache.flink.streaming.api.operators.collect.CollectSinkFunction.
"""

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from operators.chain.operator import MIN_WATERMARK, Operator, Timestamps, Values
from operators.common.pickles import dumps
from operators.common.typeinfo import TypeInformation
from operators.connectors.sink import PrintSink, Sink
from operators.exchange.blocks import encode_batch, encode_values
from operators.exchange.channel_writer import Row
from operators.exchange.rows_and_batches import VALUE_COLUMN


class TerminalOperator(Operator):
    """An operator whose results go to the driver: rows of a negative edge, which no JobVertex reads."""

    def __init__(self, edge: int) -> None:
        self.edge = edge

    def attach(self, emit: Callable[[Row], None]) -> None:
        """Called after `setup`: where its rows go."""
        self._emit = emit
        self._sequence = 0

    def process_watermark(self, watermark: int) -> None:
        """Nothing is behind a sink."""

    def send(self, payload: bytes) -> None:
        """A row for the driver."""
        self._emit(Row(self.edge, 0, MIN_WATERMARK, self.context.subtask, self._sequence, payload))
        self._sequence += 1


class CollectOperator(TerminalOperator):
    """Brings the records themselves to the driver, in blocks."""

    _BLOCK_RECORDS = 16_384

    def __init__(self, edge: int, type_info: TypeInformation | None) -> None:
        super().__init__(edge)
        self.type_info = type_info

    def open(self) -> None:
        """Start with nothing buffered."""
        self._values: Values = []

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer, and send full blocks."""
        self._values.extend(values)
        if len(self._values) >= self._BLOCK_RECORDS:
            self._flush()

    def finish(self) -> None:
        """Send the rest."""
        self._flush()

    def _flush(self) -> None:
        if self._values:
            self.send(encode_values(self._values, None, self.type_info, MIN_WATERMARK))
            self._values = []


class CollectBatchesOperator(TerminalOperator):
    """Brings record batches to the driver as they are."""

    columnar = True

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Send a block."""
        self.send(encode_batch(batch, None, MIN_WATERMARK))


class DataFrameOperator(TerminalOperator):
    """Ends a vertex whose results are the rows of a DataFrame: Spark gets them as they are.

    `type_info` None: one column `value` of pickles.
    """

    columnar = True

    def __init__(self, type_info: TypeInformation | None) -> None:
        super().__init__(-1)
        self.type_info = type_info

    def attach_results(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        """Called after `setup`: where its batches go."""
        self._emit_batch = emit

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Hand the batch over."""
        self._emit_batch(batch)


class PickledDataFrameOperator(DataFrameOperator):
    """The same for records of no declared type: one column `value` of pickles."""

    columnar = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Pickle each record."""
        pickles = pa.array([dumps(value) for value in values], pa.binary())
        self._emit_batch(pa.RecordBatch.from_arrays([pickles], [VALUE_COLUMN]))


class PrintOperator(TerminalOperator):
    """Makes lines of records; the driver prints them."""

    def __init__(self, edge: int, sink: PrintSink) -> None:
        super().__init__(edge)
        self.sink = sink
        self.wants_declared_types = True

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Send the lines."""
        lines = self.sink.lines(values, self.context)
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
        """Write."""
        try:
            self._writer.write(values, timestamps)
        except (TypeError, ValueError) as error:
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
        """Write a batch."""
        self._writer.write_batch(batch, timestamps)


def terminal_operator(edge: int, sink: Any, type_info: TypeInformation | None, *, columnar: bool) -> Operator:
    """The operator for `sink` as it stands at the end of a stream; `columnar`: it comes in record batches."""
    from operators.connectors.sink import CollectSink

    if isinstance(sink, CollectSink):
        return CollectBatchesOperator(edge) if columnar else CollectOperator(edge, type_info)
    if isinstance(sink, PrintSink):
        return PrintOperator(edge, sink)
    if columnar and sink.columnar:
        return ColumnarSinkWriterOperator(edge, sink)
    return SinkWriterOperator(edge, sink)
