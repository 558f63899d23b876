"""The rows of a Spark DataFrame as a source: read where Spark has them, never collected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from operators.common.typeinfo import TypeInformation
from operators.connectors.source import Source

_MICROSECONDS = 1_000_000


class DataFrameSource(Source):
    """Gives the DataFrame's record batches, cast to `schema`, with its columns' names.

    `type_info` and `schema` describe the same records. On the driver `dataframe()` gives the DataFrame; in
    the subtasks there is none, and the runtime hands the batches of the Spark partition to `checked`.
    """

    columnar = True
    has_batches = True
    reads_dataframe = True

    def __init__(self, dataframe: Any, type_info: TypeInformation, schema: pa.Schema) -> None:
        super().__init__()
        self._dataframe = dataframe
        self.type_info, self.schema = type_info, schema

    def dataframe(self) -> Any:
        """The DataFrame; on the driver only."""
        return self._dataframe

    def splits(self, parallelism: int) -> list[list[Any]]:
        """No splits: Spark's partitions take their place."""
        return [[] for _ in range(parallelism)]

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch` with the declared names and types, column by column.

        ValueError for another number of columns, ArrowInvalid where a value does not fit.
        """
        if batch.schema.equals(self.schema):
            return batch
        if batch.num_columns != len(self.schema):
            raise ValueError(f"{batch.num_columns} columns, of which {len(self.schema)} are declared")
        columns = [as_type(column, field.type) for column, field in zip(batch, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_dataframe": None}


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """`column` cast to `kind`; timestamps with a time zone to structs of seconds and nanos, too."""
    if column.type.equals(kind):
        return column
    if pa.types.is_timestamp(column.type) and pa.types.is_struct(kind):
        return _instants(column, kind)
    if pa.types.is_struct(column.type) and pa.types.is_struct(kind) and len(column.type) == len(kind):
        parts = [as_type(column.field(place), field.type) for place, field in enumerate(kind)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    return column.cast(kind)


def _instants(column: pa.Array, kind: pa.DataType) -> pa.Array:
    counts = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    seconds, rest = np.divmod(counts.fill_null(0).to_numpy(zero_copy_only=False), _MICROSECONDS)
    parts = [pa.array(seconds, pa.int64()), pa.array(rest * 1000, pa.int32())]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
