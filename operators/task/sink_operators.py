"""Sinks at the end of a chain, with their writers and the terminal rows that they send to the driver.

Source: org.apache.flink.streaming.runtime.operators.sink.SinkWriterOperator,
org.apache.flink.streaming.api.operators.collect.CollectSinkFunction.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.operators.chain.errors import EnoughResults, misfit
from penstock.operators.chain.operator import (
    MIN_WATERMARK,
    Operator,
    OperatorContext,
    Output,
    Timestamps,
    Values,
)
from penstock.operators.common.adapt_columns import relabelled_batch, same_layout
from penstock.operators.common.entry_size import value_bytes
from penstock.operators.common.pickles import dumps
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.sink import PrintSink, Sink
from penstock.operators.exchange.blocks import VALUE_COLUMN, encode_batch, encode_values
from penstock.operators.exchange.channel_writer import CUT_OFF, FLUSH_SECONDS, MISFIT, ChannelRow
from penstock.operators.formats.part_formats import as_stored

_BLOCK_BYTES = 8 << 20


class TerminalOperator(Operator):
    """An operator whose results go to the driver, in rows of a negative edge, which no JobVertex reads."""

    def __init__(self, edge: int) -> None:
        self.edge = edge

    def attach(self, emit: Callable[[ChannelRow], None]) -> None:
        """Set the receiver of its rows; called after `setup`."""
        self._emit = emit
        self._sequence = 0

    def process_watermark(self, watermark: int) -> None:
        """Ignore the watermark, since nothing comes after a sink."""

    def send(self, payload: bytes) -> None:
        """Send a row to the driver."""
        self._emit(ChannelRow(self.edge, 0, MIN_WATERMARK, self.context.subtask, self._sequence, payload))
        self._sequence += 1


class CollectOperator(TerminalOperator):
    """Sends the records themselves to the driver, in blocks; with a `limit`, only the first ones.

    Raises EnoughResults once the limit is reached.
    """

    _BLOCK_RECORDS = 16_384

    def __init__(self, edge: int, type_info: TypeInformation | None, limit: int | None = None) -> None:
        super().__init__(edge)
        self.type_info, self.limit = type_info, limit

    def open(self) -> None:
        """Start with an empty buffer."""
        self._values: Values = []
        self._left = self.limit
        self._bytes = 0
        self._flushed_at = monotonic()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer the records; send a block that is full or due."""
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
        """Send the rest, and a mark that later records may be missing."""
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
    """Sends record batches to the driver unchanged; with a `limit`, only the first rows.

    Raises EnoughResults once the limit is reached.
    """

    columnar = True

    def __init__(self, edge: int, limit: int | None = None) -> None:
        super().__init__(edge)
        self.limit = limit

    def open(self) -> None:
        """Start with no row sent."""
        self._left = self.limit

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        if self._left is not None:
            batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
        self.send(encode_batch(batch, None, MIN_WATERMARK))
        if self._left == 0:
            raise EnoughResults

    def tell_cut_off(self) -> None:
        """Send a mark that later rows may be missing."""
        self.send(CUT_OFF)


class PrintOperator(TerminalOperator):
    """Formats records as lines, which the driver prints."""

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
    """Writes records, and sends the committables to the driver."""

    def __init__(self, edge: int, sink: Sink) -> None:
        super().__init__(edge)
        self.sink = sink
        self.wants_declared_types = not sink.columnar  # columnar sinks encode by type themselves

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
        """Remove the written files unless `finish` was called."""
        if hasattr(self, "_writer") and not self._finished:
            self._writer.abort()


class ColumnarSinkWriterOperator(SinkWriterOperator):
    """The same for sinks that take record batches."""

    columnar = True

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        self._writer.write_batch(batch, timestamps)


def terminal_operator(edge: int, sink: Any, type_info: TypeInformation | None, *, columnar: bool) -> Operator:
    """Return the operator for `sink` at the end of a stream; `columnar`: the stream has record batches."""
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


# Ends of a chain whose results are rows of a DataFrame


_NO_COLUMNS = pa.schema([pa.field("rows", pa.int32(), nullable=False)])
"""The schema that represents rows without columns, which Arrow and Spark cannot count."""


def rows_schema(schema: StructType) -> StructType:
    """Return the schema of the rows that Spark receives, with a placeholder column if it would be empty."""
    return schema if schema.names else StructType([StructField("rows", IntegerType(), False)])


REPORTS_EDGE = -(2**31)
"""The edge of metrics reports if results are blocks."""


class DataFrameOperator(TerminalOperator):
    """Passes batches of `schema`, which has Spark's types, to Spark.

    If `edge` is None, they are the rows of the vertex, with a last column `reports` if that is given; it is
    null except in rows that hold only a report. Otherwise they are blocks for that edge, which
    `result_batches` reads, and reports are rows of REPORTS_EDGE.
    """

    columnar = True

    def __init__(
        self,
        type_info: TypeInformation | None,
        schema: pa.Schema,
        edge: int | None,
        reports: str | None = None,
    ) -> None:
        super().__init__(-1 if edge is None else edge)
        self.type_info, self.schema, self.in_blocks = type_info, schema, edge is not None
        self.reports = reports

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set up without a callback before batches."""
        super().setup(context, output)
        self.before_batch: Callable[[], None] = lambda: None

    def attach_results(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        """Set the receiver of its batches; called after `setup`."""
        self._emit_batch = emit

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Pass the batch on. Raises ValueError for a null in a column that is not nullable."""
        self.hand_over(as_declared(batch, self.schema))

    def hand_over(self, batch: pa.RecordBatch) -> None:
        """Pass on a batch of `schema`."""
        self.before_batch()
        if self.in_blocks:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            self.send(sink.getvalue().to_pybytes())
        elif self.reports is not None:
            self._emit_batch(_with_text(batch, self.reports, None))
        else:
            self._emit_batch(batch)

    def send_report(self, report: bytes) -> None:
        """Send a report of the metrics of a subtask's functions."""
        if self.in_blocks:
            self._emit(ChannelRow(REPORTS_EDGE, 0, MIN_WATERMARK, self.context.subtask, 0, report))
        elif self.reports is not None:
            row = placeholder_row(self.schema if self.schema.names else _NO_COLUMNS)
            self._emit_batch(_with_text(row, self.reports, report.decode()))


class PickledDataFrameOperator(DataFrameOperator):
    """The same for records without a declared type, with one column `value` of pickles."""

    columnar = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        pickles = pa.array([dumps(value) for value in values], pa.binary())
        self.hand_over(as_declared(pa.RecordBatch.from_arrays([pickles], [VALUE_COLUMN]), self.schema))


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` with the columns of `schema`, matched by position."""
    if not schema.names:
        return pa.RecordBatch.from_arrays([pa.array([0] * batch.num_rows, pa.int32())], schema=_NO_COLUMNS)
    if batch.num_columns > len(schema):  # kinds of rows
        batch = batch.select(list(range(len(schema))))
    for at, field in enumerate(schema):
        if not field.nullable and batch.column(at).null_count:
            raise ValueError(f"column {field.name!r}: must not be null as declared, got None")
    if same_layout(batch.schema, schema):
        return relabelled_batch(batch, schema)
    columns = []
    for at, field in enumerate(schema):
        try:
            columns.append(as_stored(batch.column(at), field.type))
        except pa.ArrowException as error:
            raise ValueError(f"column {field.name!r}: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_text(batch: pa.RecordBatch, name: str, text: str | None) -> pa.RecordBatch:
    column = pa.nulls(batch.num_rows, pa.string()) if text is None else pa.array([text], pa.string())
    return batch.append_column(pa.field(name, pa.string()), column)


def placeholder_row(schema: pa.Schema) -> pa.RecordBatch:
    """Return a placeholder row, never read, with a value in each column that is not nullable."""
    return pa.RecordBatch.from_arrays([_placeholder(field) for field in schema], schema=schema)


def _placeholder(field: pa.Field) -> pa.Array:
    """Return one value that the column may hold, null if that is allowed."""
    kind = field.type
    if field.nullable:
        return pa.nulls(1, kind)
    if kinds.is_struct(kind):
        return pa.StructArray.from_arrays(list(map(_placeholder, kind)), fields=list(kind))
    for value in _EMPTY:
        with suppress(pa.ArrowException, TypeError):
            return pa.array([value], kind)
    raise TypeError(f"column {field.name!r}: no value of {kind}")


_EMPTY: tuple[Any, ...] = (0, False, "", b"", [])
"""Every type except a struct has a value among these."""


def result_batches(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches in rows of blocks."""
    for batch in rows:
        for payload in batch.column("payload"):
            block: Any = pa.py_buffer(payload.as_buffer().to_pybytes())
            yield from pa.ipc.open_stream(block)
