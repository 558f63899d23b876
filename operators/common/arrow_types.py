"""Conversion between Arrow types and Flink types.

Values in Arrow: numbers, booleans, strings, dates and times in Arrow's own types; BIG_INT and BIG_DEC as
decimal strings, as in PyFlink's coder of BIG_DEC (Arrow's decimals have a fixed scale); INSTANT as a struct
of seconds and nanos; tuples and rows as structs; lists and arrays as lists, but lists and arrays of bytes as
binary; values without a declared type as pickles.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock.operators.common.basic_types import (
    BasicType,
    BasicTypeInfo,
    ForeignTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    Types,
    check_element_type,
)

#: Last field of a struct of rows if some are not inserts: the number of the row's kind.
ROW_KIND_FIELD = "$row_kind"

_BASIC = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.BIG_INT: pa.string(),
    BasicType.BIG_DEC: pa.string(),
    BasicType.INSTANT: pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
}
_LOCAL = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: pa.date32(),
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: pa.time64("us"),
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: pa.timestamp("us"),
}


def arrow_type(type_info: TypeInformation | None) -> pa.DataType:
    """Return the Arrow type of a column of such values; None means pickles.

    Raises TypeError for types without one.
    """
    if type_info is None:
        return pa.binary()
    for kind in type(type_info).__mro__:
        if kind in _ARROW_TYPES:
            return _ARROW_TYPES[kind](type_info)
    raise TypeError(f"values of {type_info!r} have no Arrow type")


def is_bytes(type_info: TypeInformation) -> bool:
    """Whether values are bytes, as for arrays of primitive bytes and, in PyFlink's coder, lists of bytes."""
    return isinstance(type_info, (PrimitiveArrayTypeInfo, ListTypeInfo)) and (
        element_type(type_info) == BasicTypeInfo.BYTE_TYPE_INFO()
    )


def element_type(type_info: TypeInformation) -> TypeInformation:
    """Return the type of the elements of an array or list. Raises TypeError if Java has no such array."""
    check_element_type(type_info)
    name = "elem_type" if isinstance(type_info, ListTypeInfo) else "_element_type"
    element: TypeInformation = getattr(type_info, name)
    return element


def field_names(type_info: TupleTypeInfo | RowTypeInfo) -> list[str]:
    """Return the names of a row's fields, or f0, f1, … for a tuple."""
    if isinstance(type_info, RowTypeInfo):
        return type_info.get_field_names()
    return [f"f{position}" for position in range(len(type_info.get_field_types()))]


def _struct(type_info: Any) -> pa.DataType:
    types = map(arrow_type, type_info.get_field_types())
    return pa.struct(list(zip(field_names(type_info), types, strict=True)))


def _list(type_info: Any) -> pa.DataType:
    element = element_type(type_info)
    return pa.binary() if is_bytes(type_info) else pa.list_(arrow_type(element))


_ARROW_TYPES: dict[type, Callable[[Any], pa.DataType]] = {
    BasicTypeInfo: lambda type_info: _BASIC[type_info._basic_type],
    PickledBytesTypeInfo: lambda type_info: pa.binary(),
    DateTypeInfo: lambda type_info: pa.date32(),
    TimeTypeInfo: lambda type_info: pa.time32("ms"),
    TimestampTypeInfo: lambda type_info: pa.timestamp("ms"),
    LocalTimeTypeInfo: lambda type_info: _LOCAL[type_info._time_type],
    TupleTypeInfo: _struct,
    RowTypeInfo: _struct,
    PrimitiveArrayTypeInfo: _list,
    BasicArrayTypeInfo: _list,
    ObjectArrayTypeInfo: _list,
    ListTypeInfo: _list,
    MapTypeInfo: lambda type_info: pa.map_(
        arrow_type(type_info._key_type_info), arrow_type(type_info._value_type_info)
    ),
    ExternalTypeInfo: lambda type_info: arrow_type(type_info._type_info),
    ForeignTypeInfo: lambda type_info: type_info.column_type,
}


def type_info_of_arrow(data_type: pa.DataType | pa.Schema) -> TypeInformation:
    """Return the type of the values in such a column, or in such a record batch.

    Structs and schemas are rows with names. Timestamps with a time zone are instants; those without retain
    their microseconds, as LocalTimeTypeInfo, if Arrow's unit is finer than a millisecond. Nanoseconds of
    times and of timestamps without time zone are cut off. Raises TypeError for types without a corresponding
    Flink type.
    """
    if isinstance(data_type, pa.Schema):
        return Types.ROW_NAMED(data_type.names, [type_info_of_arrow(field.type) for field in data_type])
    for matches, make in _TYPE_INFOS:
        if matches(data_type):
            return make(data_type)
    raise TypeError(f"Arrow's {data_type} has no corresponding Flink type")


def _timestamp_type(data_type: Any) -> TypeInformation:
    if data_type.tz is not None:
        return Types.INSTANT()
    if data_type.unit in ("s", "ms"):
        return Types.SQL_TIMESTAMP()
    return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)


def _time_type(data_type: Any) -> TypeInformation:
    if kinds.is_time32(data_type):
        return Types.SQL_TIME()
    return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME)


def _is_list(data_type: pa.DataType) -> bool:
    return kinds.is_nested(data_type) and hasattr(data_type, "value_type") and not kinds.is_map(data_type)


_TYPE_INFOS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], TypeInformation]]] = [
    (kinds.is_boolean, lambda data_type: Types.BOOLEAN()),
    (kinds.is_int8, lambda data_type: Types.BYTE()),
    (
        lambda data_type: kinds.is_int16(data_type) or kinds.is_uint8(data_type),
        lambda data_type: Types.SHORT(),
    ),
    (
        lambda data_type: kinds.is_int32(data_type) or kinds.is_uint16(data_type),
        lambda data_type: Types.INT(),
    ),
    (
        lambda data_type: kinds.is_int64(data_type) or kinds.is_uint32(data_type),
        lambda data_type: Types.LONG(),
    ),
    (kinds.is_uint64, lambda data_type: Types.BIG_INT()),
    (
        lambda data_type: kinds.is_float16(data_type) or kinds.is_float32(data_type),
        lambda data_type: Types.FLOAT(),
    ),
    (kinds.is_float64, lambda data_type: Types.DOUBLE()),
    (
        lambda data_type: (
            kinds.is_string(data_type) or kinds.is_large_string(data_type) or str(data_type) == "string_view"
        ),
        lambda data_type: Types.STRING(),
    ),
    (
        lambda data_type: "binary" in str(data_type) and not kinds.is_nested(data_type),
        lambda data_type: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ),
    (kinds.is_decimal, lambda data_type: Types.BIG_DEC()),
    (kinds.is_date, lambda data_type: Types.SQL_DATE()),
    (kinds.is_time, _time_type),
    (kinds.is_timestamp, _timestamp_type),
    (kinds.is_dictionary, lambda data_type: type_info_of_arrow(data_type.value_type)),
    (
        kinds.is_map,
        lambda data_type: Types.MAP(
            type_info_of_arrow(data_type.key_type), type_info_of_arrow(data_type.item_type)
        ),
    ),
    (_is_list, lambda data_type: Types.LIST(type_info_of_arrow(data_type.value_type))),
    (
        kinds.is_struct,
        lambda data_type: Types.ROW_NAMED(
            [field.name for field in data_type], [type_info_of_arrow(field.type) for field in data_type]
        ),
    ),
]
