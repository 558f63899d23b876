"""The rows of a Spark DataFrame as a source: read where Spark has them, never collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from operators.chain.operator import OperatorContext
from operators.common.adapt_columns import as_arrow_type
from operators.common.typeinfo import TypeInformation
from operators.connectors.identify_dataframe import identify_dataframe
from operators.connectors.source import Source
from operators.formats.chunks import Chunk, StampedBatch


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

    def fingerprint(self) -> str | None:
        """Its plan, with what it reads as it is now; see `identify_dataframe`."""
        return identify_dataframe(self._dataframe)

    def read(self, split: Any, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """The runtime hands the batches of Spark's partitions to `checked` instead."""
        raise NotImplementedError

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
        columns = [
            as_arrow_type(column, field.type) for column, field in zip(batch, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_dataframe": None}
