"""Given tables a column at a time, so that a column is freed as soon as it has been converted."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from penstock.plans.tables.column_types import type_name
from penstock.plans.tables.plain_columns import plain_column, plain_type, require_unique_columns


class GivenColumns(NamedTuple):
    """A table as somebody gives it: `columns` without those that hold no value, of which `types` knows."""

    types: dict[str, str]  #: column to its type's name (see type_name), in order
    columns: dict[str, pa.ChunkedArray]
    rows: int


def given_columns(schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table]) -> GivenColumns:
    """The columns of batches that all have `schema`.

    What is null all through a batch, as rarer columns are, takes no memory until another batch has values.
    """
    require_unique_columns(schema.names, "a table of topologies")
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in schema])
    rows, chunks = 0, [list[pa.Array | int]() for _ in schema]
    for batch in batches:
        rows += len(batch)
        for found, column in zip(chunks, batch.columns, strict=True):
            pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            found += [
                len(piece) if piece.null_count == len(piece) else plain_column(piece) for piece in pieces
            ]
    columns = {}
    for field in schema:
        found = chunks.pop(0)
        if any(isinstance(piece, pa.Array) for piece in found):
            arrays = [pa.nulls(piece, field.type) if isinstance(piece, int) else piece for piece in found]
            columns[field.name] = pa.chunked_array(arrays, field.type)
    return GivenColumns({field.name: type_name(field.type) for field in schema}, columns, rows)
