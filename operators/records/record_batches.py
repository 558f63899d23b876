"""Vectorised operators: pyarrow record batches in, record batches out, no Python object per record."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.operators.chain.operator import Operator
from penstock.operators.common.adapt_columns import as_arrow_type, require_values
from penstock.operators.records.user_function import FunctionOperator

_STAMPS = "$timestamp"


class MapBatchesOperator(FunctionOperator):
    """Whatever batches the function gives for a batch.

    The function maps a RecordBatch of `input_schema` to a RecordBatch (or several, as an iterable) of
    `output_schema`, whose columns it calls `names` if that is given. Timestamps stay where the number of rows
    does, and are dropped otherwise.
    """

    columnar = True

    def __init__(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]],
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        names: list[str] | None = None,
    ) -> None:
        super().__init__(function)
        self.input_schema, self.output_schema = input_schema, output_schema
        self.names = output_schema.names if names is None else names

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Put out what the function makes of `batch`."""
        try:
            # inputs of a union may have their columns in other types
            for result in _batches(self.function(_of_schema(batch, self.input_schema))):
                declared = self._as_declared(result)
                if declared.num_rows:
                    self.output.collect_batch(
                        declared, timestamps if declared.num_rows == batch.num_rows else None
                    )
        except BaseException as error:
            raise self.failed(error, _first_row(batch)) from error

    def _as_declared(self, batch: Any) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"the function must give a pyarrow RecordBatch, got {type(batch).__name__}")
        if batch.schema.names != self.names:
            raise TypeError(
                f"the columns must be {', '.join(self.names)}, got {', '.join(batch.schema.names)}"
            )
        declared = _of_schema(batch, self.output_schema)
        for column, field in zip(declared.columns, self.output_schema, strict=True):
            require_values(column, field)
        return declared


def _batches(results: Any) -> Iterable[Any]:
    if isinstance(results, pa.Table):
        return results.to_batches()  # type: ignore[no-any-return]
    if isinstance(results, pa.RecordBatch) or not isinstance(results, Iterable):
        return [results]
    return [results] if isinstance(results, Mapping) or hasattr(results, "columns") else results


def _of_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with the columns of `schema`. TypeError names one that cannot become what is declared."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if _zoned(column.type) != _zoned(field.type) and kinds.is_timestamp(column.type):
            raise TypeError(f"column {field.name!r} must be {field.type}, got {column.type}")
        try:
            columns.append(as_arrow_type(column, field.type))
        except (pa.ArrowException, OverflowError) as error:
            raise TypeError(
                f"column {field.name!r} must be {field.type}, got {column.type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _zoned(data_type: pa.DataType) -> bool:
    return getattr(data_type, "tz", None) is not None


def _first_row(batch: pa.RecordBatch) -> Any:
    first = batch.slice(0, 1)
    try:
        return first.to_pylist()
    except Exception:  # a value that Python cannot hold
        return [{name: str(column) for name, column in zip(first.schema.names, first.columns, strict=True)}]


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
            raise self.failed(error, _first_row(batch)) from error
        if not kept.num_rows:
            return
        if timestamps is None:
            self.output.collect_batch(kept, None)
        else:
            last = kept.num_columns - 1
            self.output.collect_batch(kept.select(list(range(last))), kept.column(last))
