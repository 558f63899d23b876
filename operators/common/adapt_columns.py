"""Conversion of columns in Arrow types of DataFrames and files to the types of `arrow_type`."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

# The same bytes with other names, time zones and nullability


class _DataWithLabel:
    def __init__(self, data: Any, label: Any) -> None:
        self._data, self._label = data, label

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._label.__arrow_c_schema__(), self._data.__arrow_c_array__()[1]


def relabelled_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch`, without a copy, as a batch of `schema`, which has the same layout."""
    return pa.record_batch(_DataWithLabel(batch, schema))


def _relabelled_array(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return `column`, without a copy, as an array of type `kind`, which has the same layout."""
    return pa.array(_DataWithLabel(column, kind))


def same_layout(first: pa.Schema, second: pa.Schema) -> bool:
    """Whether columns of both have the same bytes, regardless of names, time zones and nullability."""
    return len(first) == len(second) and all(
        same_type_layout(a.type, b.type) for a, b in zip(first, second, strict=True)
    )


def same_type_layout(first: pa.DataType, second: pa.DataType) -> bool:
    """Whether two types have the same layout; see `same_layout`."""
    if kinds.is_timestamp(first) and kinds.is_timestamp(second):
        return bool(first.unit == second.unit)
    if first.id != second.id:
        return False
    if not kinds.is_nested(first):
        return bool(first == second)
    return first.num_fields == second.num_fields and all(
        same_type_layout(first.field(at).type, second.field(at).type) for at in range(first.num_fields)
    )


def as_arrow_type(column: pa.Array | pa.ChunkedArray, expected: pa.DataType) -> pa.Array:
    """Return `column` as an array of type `expected`; structs retain a last field that `expected` lacks.

    Times, timestamps and durations are cut to the unit of `expected`, decimals are rounded half up to its
    scale, as in Spark's casts. Raises ArrowInvalid for values that do not fit, ArrowNotImplementedError for
    types that cannot be converted.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.type == expected:
        return column
    if kinds.is_dictionary(column.type):
        return as_arrow_type(_decoded(column), expected)
    if kinds.is_dictionary(expected):
        return as_arrow_type(column, expected.value_type).dictionary_encode().cast(expected)
    if kinds.is_nested(expected):
        return _nested(column, expected)
    if kinds.is_temporal(expected) and kinds.is_temporal(column.type):
        return _cut(column, expected)
    if kinds.is_decimal(expected) and kinds.is_decimal(column.type):
        return _rounded(column, expected)
    return pc.cast(column, expected)


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    """Return the values of `column`; an index without a value, as may be below a null struct, is null."""
    indices = column.indices
    known = pc.and_(pc.greater_equal(indices, 0), pc.less(indices, len(column.dictionary)))
    return column.dictionary.take(pc.if_else(known, indices, pa.scalar(None, indices.type)))


def _nested(column: pa.Array, expected: Any) -> pa.Array:
    if kinds.is_struct(expected):
        return (_instants if kinds.is_timestamp(column.type) else _struct)(column, expected)
    if _is_list(expected):
        return _list(column, expected)
    if not kinds.is_map(expected):
        return pc.cast(column, expected)
    keys = as_arrow_type(column.keys, expected.key_type)
    items = as_arrow_type(column.items, expected.item_type)
    maps = pa.MapArray.from_arrays(_offsets(column), keys, items, mask=_mask(column))
    relabels = keys.type == expected.key_type and items.type == expected.item_type
    return _relabelled_array(maps, expected) if relabels and maps.type != expected else maps


def require_values(column: pa.Array, field: pa.Field, path: str = "") -> None:
    """Raise ValueError for a null in `column`, or within it, that `field` does not allow."""
    path = f"{path}.{field.name}" if path else field.name
    if not field.nullable and column.null_count:
        raise ValueError(f"column {path!r} must not be null as declared, got a null")
    if kinds.is_struct(field.type):
        present = column.filter(column.is_valid()) if column.null_count else column
        for at, child in enumerate(field.type):
            require_values(present.field(at), child, path)
    elif kinds.is_map(field.type):
        require_values(_span(column, column.items), field.type.item_field, path)
    elif _is_list(field.type):
        require_values(column.flatten(), field.type.value_field, path)


def _span(column: pa.Array, entries: pa.Array) -> pa.Array:
    bounds = column.offsets
    if len(bounds) < 2:
        return entries.slice(0, 0)
    first = bounds[0].as_py()
    return entries.slice(first, bounds[-1].as_py() - first)


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        kinds.is_list(data_type) or kinds.is_large_list(data_type) or kinds.is_fixed_size_list(data_type)
    )


def _list(column: pa.Array, expected: Any) -> pa.Array:
    lists: Any = column
    if kinds.is_fixed_size_list(column.type):
        offsets = pa.array(np.arange(len(column) + 1, dtype=np.int32) * column.type.list_size)
        lists = pa.ListArray.from_arrays(offsets, _fixed_values(column), mask=_mask(column))
    elif not _is_list(column.type):
        return pc.cast(column, expected)
    if kinds.is_fixed_size_list(expected):
        values = as_arrow_type(_values_of_size(lists, expected), expected.value_type)
        return pa.FixedSizeListArray.from_arrays(values, type=expected, mask=_mask(lists))
    values = as_arrow_type(lists.values, expected.value_type)
    if kinds.is_large_list(expected):
        offsets = pa.array(lists.offsets.to_numpy(), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, values, type=expected, mask=_mask(lists))
    # rows with kinds among the values have one more field than expected
    field = expected.value_field if values.type == expected.value_type else values.type
    return pa.ListArray.from_arrays(_offsets(lists), values, type=pa.list_(field), mask=_mask(lists))


def _values_of_size(lists: Any, expected: Any) -> pa.Array:
    """Return the elements of lists of `expected`'s size, with nulls for a list that is null."""
    size, bounds = expected.list_size, lists.offsets.to_numpy()
    missing = lists.is_null().to_numpy(zero_copy_only=False)
    if ((np.diff(bounds) != size) & ~missing).any():
        raise pa.ArrowInvalid(f"a list must have the size {size}")
    places = (bounds[:-1, None] + np.arange(size)).ravel()
    return lists.values.take(pa.array(places, mask=np.repeat(missing, size)))


def _fixed_values(column: Any) -> pa.Array:
    size = column.type.list_size
    return column.values.slice(column.offset * size, len(column) * size)


def _rounded(column: pa.Array, expected: Any) -> pa.Array:
    if column.type.scale > expected.scale:
        # in the widest type: Arrow refuses a rounded value that needs one more digit
        widest = pc.cast(column, pa.decimal256(76, column.type.scale))
        column = pc.round(widest, expected.scale, round_mode="half_towards_infinity")
    return pc.cast(column, expected)


def match_fields(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column whose structs, at any depth, have the fields of `wanted`, matched by name.

    Missing fields are null. Other values are unchanged; `as_arrow_type` converts their types.
    """
    if kinds.is_struct(wanted) and kinds.is_struct(column.type):
        names = [field.name for field in column.type]
        fields = [
            match_fields(column.field(names.index(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(column), field.type)
            for field in wanted
        ]
        if not fields:
            return column
        return pa.StructArray.from_arrays(fields, [field.name for field in wanted], mask=_mask(column))
    if kinds.is_list(wanted) and _is_any_list(column.type):
        lists = column if kinds.is_list(column.type) else column.cast(pa.list_(column.type.value_type))
        values = match_fields(lists.values, wanted.value_type)
        return pa.ListArray.from_arrays(_offsets(lists), values, mask=_mask(lists))
    if kinds.is_map(wanted) and kinds.is_map(column.type):
        keys, items = (
            match_fields(column.keys, wanted.key_type),
            match_fields(column.items, wanted.item_type),
        )
        return pa.MapArray.from_arrays(_offsets(column), keys, items, mask=_mask(column))
    return column


def share_fields(column_type: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether all structs of both types have names in common, so that `match_fields` can be applied."""
    if kinds.is_struct(wanted) and kinds.is_struct(column_type):
        theirs = {field.name: field.type for field in column_type}
        common = [field for field in wanted if field.name in theirs]
        return bool(common) and all(share_fields(theirs[field.name], field.type) for field in common)
    if kinds.is_list(wanted) and _is_any_list(column_type):
        return share_fields(column_type.value_type, wanted.value_type)
    if kinds.is_map(wanted) and kinds.is_map(column_type):
        return share_fields(column_type.item_type, wanted.item_type)
    return True


def _is_any_list(data_type: pa.DataType) -> bool:
    return any(
        matches(data_type) for matches in (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
    )


def _struct(column: pa.StructArray, expected: pa.StructType) -> pa.StructArray:
    field_count = column.type.num_fields
    if field_count not in (expected.num_fields, expected.num_fields + 1):
        raise pa.ArrowInvalid(f"{column.type} has {field_count} fields, {expected} has {expected.num_fields}")
    fields = [as_arrow_type(column.field(at), field.type) for at, field in enumerate(expected)]
    names = [field.name for field in expected]
    if field_count > expected.num_fields:
        fields.append(column.field(field_count - 1))
        names.append(column.type.field(field_count - 1).name)
    if not fields:
        return column
    if field_count == expected.num_fields:
        return pa.StructArray.from_arrays(fields, fields=list(expected), mask=_mask(column))
    return pa.StructArray.from_arrays(fields, names=names, mask=_mask(column))


def _instants(column: pa.TimestampArray, expected: pa.StructType) -> pa.StructArray:
    units_per_second = _UNITS_PER_SECOND[column.type.unit]
    ticks = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds, rest = np.divmod(ticks, units_per_second)
    nanos = (rest * (10**9 // units_per_second)).astype(np.int32)
    return pa.StructArray.from_arrays(
        [pa.array(seconds), pa.array(nanos)], fields=list(expected), mask=_mask(column)
    )


def _cut(column: pa.Array, expected: pa.DataType) -> pa.Array:
    if kinds.is_timestamp(column.type):
        if column.type.tz is not None and getattr(expected, "tz", None) is None:
            column = pc.local_timestamp(column)
        elif column.type.tz is None and getattr(expected, "tz", None) is not None:
            raise pa.ArrowInvalid(f"a timestamp without time zone cannot become one in {expected.tz}")
        if kinds.is_timestamp(expected):
            # no value loses a part here, so a value outside of the finer unit's range is an error
            return pc.cast(pc.floor_temporal(column, unit=_UNITS[expected.unit]), expected)
    elif (
        kinds.is_duration(column.type)
        and _UNITS_PER_SECOND[expected.unit] > _UNITS_PER_SECOND[column.type.unit]
    ):
        return pc.cast(column, expected)
    return pc.cast(column, expected, safe=False)


_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _offsets(column: pa.Array) -> pa.Array:
    # a copy: Arrow does not accept a slice of offsets together with a mask
    return pa.array(column.offsets.to_numpy(), pa.int32())


def _mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
