"""Ends of a chain whose results are rows of a DataFrame."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.operators.chain.operator import MIN_WATERMARK, OperatorContext, Output, Timestamps, Values
from penstock.operators.common.pickles import dumps
from penstock.operators.common.relabel import relabelled_batch, same_layout
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.exchange.blocks import VALUE_COLUMN
from penstock.operators.exchange.channel_writer import ChannelRow
from penstock.operators.formats.part_formats import as_stored
from penstock.operators.task.sink_operators import TerminalOperator

_NO_COLUMNS = pa.schema([pa.field("rows", pa.int32(), nullable=False)])
"""What stands for rows without columns, which Arrow and Spark cannot count on their way."""


def rows_schema(schema: StructType) -> StructType:
    """The schema of the rows that Spark gets: `schema`, or what stands for rows without columns."""
    return schema if schema.names else StructType([StructField("rows", IntegerType(), False)])


REPORTS_EDGE = -(2**31)
"""The edge of reports of what functions measure, where results are blocks."""


class DataFrameOperator(TerminalOperator):
    """Hands batches of `schema`, whose types are those of Spark, to Spark.

    `edge` None: they are the rows of the vertex, with a last column `reports` if that is given, which is null
    but in rows that hold a report and nothing else. Else they are blocks for that edge, which
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
        """Nobody wants to know of batches so far."""
        super().setup(context, output)
        self.before_batch: Callable[[], None] = lambda: None

    def attach_results(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        """Called after `setup`: where its batches go."""
        self._emit_batch = emit

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Hand the batch over. ValueError names a column with a null that it must not have."""
        self.hand_over(as_declared(batch, self.schema))

    def hand_over(self, batch: pa.RecordBatch) -> None:
        """Hand a batch of `schema` over."""
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
        """Hand over what the functions of a subtask have measured."""
        if self.in_blocks:
            self._emit(ChannelRow(REPORTS_EDGE, 0, MIN_WATERMARK, self.context.subtask, 0, report))
        elif self.reports is not None:
            row = placeholder_row(self.schema if self.schema.names else _NO_COLUMNS)
            self._emit_batch(_with_text(row, self.reports, report.decode()))


class PickledDataFrameOperator(DataFrameOperator):
    """The same for records of no declared type: one column `value` of pickles."""

    columnar = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        pickles = pa.array([dumps(value) for value in values], pa.binary())
        self.hand_over(as_declared(pa.RecordBatch.from_arrays([pickles], [VALUE_COLUMN]), self.schema))


def as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with the columns of `schema`, taken by their order."""
    if not schema.names:
        return pa.RecordBatch.from_arrays([pa.array([0] * batch.num_rows, pa.int32())], schema=_NO_COLUMNS)
    if batch.num_columns > len(schema):  # kinds of rows
        batch = batch.select(list(range(len(schema))))
    for at, field in enumerate(schema):
        if not field.nullable and batch.column(at).null_count:
            raise ValueError(f"column {field.name!r}: found None, but the column is declared as not null")
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
    """A placeholder row, never read, with a value in each column that must have one."""
    return pa.RecordBatch.from_arrays([_placeholder(field) for field in schema], schema=schema)


def _placeholder(field: pa.Field) -> pa.Array:
    """One value that the column may hold: null if that is allowed."""
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
"""One of these is a value of any type that is no struct."""


def result_batches(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of rows of blocks."""
    for batch in rows:
        for payload in batch.column("payload"):
            block: Any = pa.py_buffer(payload.as_buffer().to_pybytes())
            yield from pa.ipc.open_stream(block)
