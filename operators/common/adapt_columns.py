"""Columns of other Arrow types than `arrow_type` names, as DataFrames and files have them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds


def as_arrow_type(column: pa.Array | pa.ChunkedArray, expected: pa.DataType) -> pa.Array:
    """`column` as an array of type `expected`; structs keep a last field that `expected` lacks.

    Times and timestamps are cut to the unit of `expected`. ArrowInvalid for values that do not fit,
    ArrowNotImplementedError for types that do not go together.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.type == expected:
        return column
    if kinds.is_dictionary(column.type):
        return as_arrow_type(column.dictionary_decode(), expected)
    if kinds.is_struct(expected):
        if kinds.is_timestamp(column.type):
            return _instants(column, expected)
        return _struct(column, expected)
    if kinds.is_list(expected):
        lists = column if kinds.is_list(column.type) else column.cast(pa.list_(column.type.value_type))
        values = as_arrow_type(lists.values, expected.value_type)
        return pa.ListArray.from_arrays(_offsets(lists), values, mask=_mask(lists))
    if kinds.is_map(expected):
        keys, items = (
            as_arrow_type(column.keys, expected.key_type),
            as_arrow_type(column.items, expected.item_type),
        )
        return pa.MapArray.from_arrays(_offsets(column), keys, items, mask=_mask(column))
    if kinds.is_temporal(expected) and kinds.is_temporal(column.type):
        return _cut(column, expected)
    return pc.cast(column, expected)


def match_fields(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column whose structs, at any depth, have the fields of `wanted`: matched by name, null if lacking.

    Other values stay as they are; `as_arrow_type` adapts their types.
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
    return pa.StructArray.from_arrays(fields, names=names, mask=_mask(column))


def _instants(column: pa.TimestampArray, expected: pa.StructType) -> pa.StructArray:
    a_second = _A_SECOND[column.type.unit]
    ticks = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds, rest = np.divmod(ticks, a_second)
    nanos = (rest * (10**9 // a_second)).astype(np.int32)
    return pa.StructArray.from_arrays(
        [pa.array(seconds), pa.array(nanos)], fields=list(expected), mask=_mask(column)
    )


def _cut(column: pa.Array, expected: pa.DataType) -> pa.Array:
    if kinds.is_timestamp(column.type):
        if column.type.tz is not None and getattr(expected, "tz", None) is None:
            column = pc.local_timestamp(column)
        if kinds.is_timestamp(expected):
            column = pc.floor_temporal(column, unit=_UNITS[expected.unit])
    return pc.cast(column, expected, safe=False)


_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _offsets(column: pa.Array) -> pa.Array:
    # a copy: Arrow takes no slice of offsets together with a mask
    return pa.array(column.offsets.to_numpy(), pa.int32())


def _mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
