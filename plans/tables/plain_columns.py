"""Convert input columns to the Arrow types used in table declarations."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.plans.errors import SchemaError
from penstock.plans.printable import first_and_count

Column: TypeAlias = Any  #: an Arrow array or chunked array


def require_unique_columns(names: Iterable[str], frame: str) -> None:
    """Raise SchemaError if a frame has two columns of one name, because it is unclear which one is meant."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        listed = first_and_count(twice)
        raise SchemaError(f"{frame}: column names must be unique, got {listed} more than once")


def plain_columns(table: pa.Table) -> pa.Table:
    """Apply plain_column to each column of `table`; raise SchemaError if two columns share a name."""
    require_unique_columns(table.column_names, "topologies")
    if all(plain_type(field.type) == field.type for field in table.schema):
        return table
    return pa.Table.from_arrays([plain_column(column) for column in table.columns], table.column_names)


def plain_column(column: Column) -> Column:
    """Return the same values as plain_type.

    Some libraries read list views as empty lists and reject run-end encoded columns.
    """
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    try:
        if "list_view" in str(column.type):  # Arrow's cast of list views creates arrays without offsets
            raise pa.ArrowNotImplementedError
        return column.cast(kind)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        values = pa.array(column.to_pylist(), kind)
        return pa.chunked_array([values]) if isinstance(column, pa.ChunkedArray) else values


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Replace list views and fixed-size lists by lists, and run-end encoding by its values, at any depth."""
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_plain_items(kind))
    if pa.types.is_list(kind) or pa.types.is_list_view(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_items(kind))
    return kind


def _plain_items(kind: pa.DataType) -> pa.Field:
    return kind.value_field.with_type(plain_type(kind.value_type))
