"""Ends of a chain whose results are rows of a DataFrame."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.common.pickles import dumps
from penstock.operators.common.relabel import relabelled_batch, same_layout
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.exchange.rows_and_batches import VALUE_COLUMN
from penstock.operators.formats.storage_columns import as_stored
from penstock.operators.task.sink_operators import TerminalOperator

_NO_COLUMNS = pa.schema([pa.field("rows", pa.int32(), nullable=False)])
"""What stands for rows without columns, which Arrow and Spark cannot count on their way."""


def rows_schema(schema: StructType) -> StructType:
    """The schema of the rows that Spark gets: `schema`, or what stands for rows without columns."""
    return schema if schema.names else StructType([StructField("rows", IntegerType(), False)])


class DataFrameOperator(TerminalOperator):
    """Hands batches of `schema`, whose types are those of Spark, to Spark.

    `edge` None: they are the rows of the vertex. Else they are blocks for that edge, which `result_batches`
    reads.
    """

    columnar = True

    def __init__(self, type_info: TypeInformation | None, schema: pa.Schema, edge: int | None) -> None:
        super().__init__(-1 if edge is None else edge)
        self.type_info, self.schema, self.in_blocks = type_info, schema, edge is not None

    def attach_results(self, emit: Callable[[pa.RecordBatch], None]) -> None:
        """Called after `setup`: where its batches go."""
        self._emit_batch = emit

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Hand the batch over. ValueError names a column with a null that it must not have."""
        self.hand_over(as_declared(batch, self.schema))

    def hand_over(self, batch: pa.RecordBatch) -> None:
        """Hand a batch of `schema` over."""
        if self.in_blocks:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            self.send(sink.getvalue().to_pybytes())
        else:
            self._emit_batch(batch)


class PickledDataFrameOperator(DataFrameOperator):
    """The same for records of no declared type: one column `value` of pickles."""

    columnar = False

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Pickle each record."""
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


def result_batches(rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches of rows of blocks."""
    for batch in rows:
        for payload in batch.column("payload"):
            block: Any = pa.py_buffer(payload.as_buffer().to_pybytes())
            yield from pa.ipc.open_stream(block)
