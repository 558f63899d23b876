"""The same bytes under other names, time zones and nullability."""

from typing import Any

import pyarrow as pa
import pyarrow.types as kinds


class _Relabelled:
    def __init__(self, data: Any, label: Any) -> None:
        self._data, self._label = data, label

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._label.__arrow_c_schema__(), self._data.__arrow_c_array__()[1]


def relabelled_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch`, without a copy, as one of `schema`, which has the same layout."""
    return pa.record_batch(_Relabelled(batch, schema))


def relabelled_array(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """`column`, without a copy, as one of type `kind`, which has the same layout."""
    return pa.array(_Relabelled(column, kind))


def same_layout(first: pa.Schema, second: pa.Schema) -> bool:
    """Whether columns of both have the same bytes: names, time zones and nullability do not count."""
    return len(first) == len(second) and all(
        same_type_layout(a.type, b.type) for a, b in zip(first, second, strict=True)
    )


def same_type_layout(first: pa.DataType, second: pa.DataType) -> bool:
    """As `same_layout`, for two types."""
    if kinds.is_timestamp(first) and kinds.is_timestamp(second):
        return bool(first.unit == second.unit)
    if first.id != second.id:
        return False
    if not kinds.is_nested(first):
        return bool(first == second)
    return first.num_fields == second.num_fields and all(
        same_type_layout(first.field(at).type, second.field(at).type) for at in range(first.num_fields)
    )
