"""Vectorised operators: pyarrow record batches in, record batches out, no Python object per record."""

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.chain.operator import Operator
from penstock.operators.records.user_function import FunctionOperator

_STAMPS = "$timestamp"


class MapBatchesOperator(FunctionOperator):
    """Whatever batches the function gives for a batch.

    The function maps a RecordBatch of `input_schema` to a RecordBatch (or several, as an iterable) of
    `output_schema`. Timestamps stay where the number of rows does, and are dropped otherwise.
    """

    columnar = True

    def __init__(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]],
        input_schema: pa.Schema | None,
        output_schema: pa.Schema | None,
    ) -> None:
        super().__init__(function)
        self.input_schema, self.output_schema = input_schema, output_schema

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Put out what the function makes of `batch`."""
        try:
            results = self.function(batch)
            for result in [results] if isinstance(results, pa.RecordBatch) else results:
                declared = result if self.output_schema is None else _as_declared(result, self.output_schema)
                if declared.num_rows:
                    self.output.collect_batch(
                        declared, timestamps if declared.num_rows == batch.num_rows else None
                    )
        except BaseException as error:
            raise self.failed(error, batch.slice(0, 1).to_pylist()) from error


class FilterBatchesOperator(Operator):
    """Keeps the rows for which a pyarrow compute expression is true; null is not true."""

    columnar = True

    def __init__(self, expression: pc.Expression) -> None:
        self.expression = expression

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Put out the rows that pass."""
        rows = batch if timestamps is None else batch.append_column(_STAMPS, timestamps)
        try:
            kept = rows.filter(self.expression)
        except BaseException as error:
            raise self.failed(error, batch.slice(0, 1).to_pylist()) from error
        if not kept.num_rows:
            return
        if timestamps is None:
            self.output.collect_batch(kept, None)
        else:
            last = kept.num_columns - 1
            self.output.collect_batch(kept.select(list(range(last))), kept.column(last))


def _as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        raise TypeError(f"columns {batch.schema.names} instead of the declared {schema.names}")
    return batch.cast(schema)
