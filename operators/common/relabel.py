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


def same_layout(one: pa.Schema, other: pa.Schema) -> bool:
    """Whether columns of both have the same bytes: names, time zones and nullability do not count."""
    return len(one) == len(other) and all(
        same_type_layout(a.type, b.type) for a, b in zip(one, other, strict=True)
    )


def same_type_layout(one: pa.DataType, other: pa.DataType) -> bool:
    """As `same_layout`, for two types."""
    if kinds.is_timestamp(one) and kinds.is_timestamp(other):
        return bool(one.unit == other.unit)
    if one.id != other.id:
        return False
    if not kinds.is_nested(one):
        return bool(one == other)
    return one.num_fields == other.num_fields and all(
        same_type_layout(one.field(at).type, other.field(at).type) for at in range(one.num_fields)
    )
