"""Given columns in the forms of Arrow that tables are declared in."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.plans.errors import SchemaError
from penstock.plans.printable import first_and_count

Column: TypeAlias = Any  #: an array or a chunked array of Arrow


def require_unique_columns(names: Iterable[str], frame: str) -> None:
    """SchemaError if a frame has two columns of one name, since it is unclear which one is meant."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise SchemaError(f"{frame}: found several columns {first_and_count(twice)}, allowed: each name once")


def plain_columns(table: pa.Table) -> pa.Table:
    """The table with each column as plain_column gives it; SchemaError if two have one name."""
    require_unique_columns(table.column_names, "topologies")
    if all(plain_type(field.type) == field.type for field in table.schema):
        return table
    return pa.table([plain_column(column) for column in table.columns], table.column_names)


def plain_column(column: Column) -> Column:
    """The same values in plain_type.

    Libraries read list views as empty lists, and know no columns that are encoded by runs.
    """
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    try:
        if "list_view" in str(column.type):  # Arrow's cast of them makes arrays without offsets
            raise pa.ArrowNotImplementedError
        return column.cast(kind)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        values = pa.array(column.to_pylist(), kind)
        return pa.chunked_array([values]) if isinstance(column, pa.ChunkedArray) else values


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Lists instead of list views and lists of a fixed size, values instead of runs of them, at any depth."""
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
