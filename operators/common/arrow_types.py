"""Arrow types of Flink types and back.

How values lie in Arrow: numbers, booleans, strings, dates and times as Arrow's own; BIG_INT and BIG_DEC as
decimal strings, as PyFlink's coder of BIG_DEC has them (Arrow's decimals have a fixed scale); INSTANT as a
struct of seconds and nanos; tuples and rows as structs, lists and arrays as lists, those of bytes as binary;
what has no declared type as pickles.
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
    TypeInformation,
)
from penstock.operators.common.collection_types import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    check_element_type,
)
from penstock.operators.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.operators.common.time_types import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from penstock.operators.common.typeinfo import Types

#: Last field of a struct of rows of which some are no inserts: the number of the row's kind.
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
    """The Arrow type of a column of such values; None stands for pickles. TypeError if there is none."""
    if type_info is None:
        return pa.binary()
    for kind in type(type_info).__mro__:
        if kind in _ARROW_TYPES:
            return _ARROW_TYPES[kind](type_info)
    raise TypeError(f"values of {type_info!r} have no Arrow type")


def is_bytes(type_info: TypeInformation) -> bool:
    """Whether values are bytes: arrays of primitive bytes, and lists of bytes as PyFlink's coder has them."""
    return isinstance(type_info, (PrimitiveArrayTypeInfo, ListTypeInfo)) and (
        element_type(type_info) == BasicTypeInfo.BYTE_TYPE_INFO()
    )


def element_type(type_info: TypeInformation) -> TypeInformation:
    """Type of the elements of an array or list. TypeError if Java has no array of those."""
    check_element_type(type_info)
    name = "elem_type" if isinstance(type_info, ListTypeInfo) else "_element_type"
    found: TypeInformation = getattr(type_info, name)
    return found


def field_names(type_info: TupleTypeInfo | RowTypeInfo) -> list[str]:
    """Names of a row's fields; of a tuple's: f0, f1, …"""
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
    BasicTypeInfo: lambda one: _BASIC[one._basic_type],
    PickledBytesTypeInfo: lambda one: pa.binary(),
    DateTypeInfo: lambda one: pa.date32(),
    TimeTypeInfo: lambda one: pa.time32("ms"),
    TimestampTypeInfo: lambda one: pa.timestamp("ms"),
    LocalTimeTypeInfo: lambda one: _LOCAL[one._time_type],
    TupleTypeInfo: _struct,
    RowTypeInfo: _struct,
    PrimitiveArrayTypeInfo: _list,
    BasicArrayTypeInfo: _list,
    ObjectArrayTypeInfo: _list,
    ListTypeInfo: _list,
    MapTypeInfo: lambda one: pa.map_(arrow_type(one._key_type_info), arrow_type(one._value_type_info)),
    ExternalTypeInfo: lambda one: arrow_type(one._type_info),
    ForeignTypeInfo: lambda one: one.column_type,
}


def type_info_of_arrow(data_type: pa.DataType | pa.Schema) -> TypeInformation:
    """The type of values that such a column, or such a record batch, holds.

    Structs and schemas are rows with names. Timestamps with a time zone are instants; those without keep
    their microseconds, as LocalTimeTypeInfo, where Arrow's unit is finer than a millisecond. Nanoseconds of
    times and of timestamps without time zone are cut off. TypeError for types that no Flink type stands for.
    """
    if isinstance(data_type, pa.Schema):
        return Types.ROW_NAMED(data_type.names, [type_info_of_arrow(one.type) for one in data_type])
    for matches, made in _TYPE_INFOS:
        if matches(data_type):
            return made(data_type)
    raise TypeError(f"no Flink type stands for Arrow's {data_type}")


def _of_timestamp(data_type: Any) -> TypeInformation:
    if data_type.tz is not None:
        return Types.INSTANT()
    if data_type.unit in ("s", "ms"):
        return Types.SQL_TIMESTAMP()
    return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)


def _of_time(data_type: Any) -> TypeInformation:
    if kinds.is_time32(data_type):
        return Types.SQL_TIME()
    return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME)


def _is_list(data_type: pa.DataType) -> bool:
    return kinds.is_nested(data_type) and hasattr(data_type, "value_type") and not kinds.is_map(data_type)


_TYPE_INFOS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], TypeInformation]]] = [
    (kinds.is_boolean, lambda one: Types.BOOLEAN()),
    (kinds.is_int8, lambda one: Types.BYTE()),
    (lambda one: kinds.is_int16(one) or kinds.is_uint8(one), lambda one: Types.SHORT()),
    (lambda one: kinds.is_int32(one) or kinds.is_uint16(one), lambda one: Types.INT()),
    (lambda one: kinds.is_int64(one) or kinds.is_uint32(one), lambda one: Types.LONG()),
    (kinds.is_uint64, lambda one: Types.BIG_INT()),
    (lambda one: kinds.is_float16(one) or kinds.is_float32(one), lambda one: Types.FLOAT()),
    (kinds.is_float64, lambda one: Types.DOUBLE()),
    (
        lambda one: kinds.is_string(one) or kinds.is_large_string(one) or str(one) == "string_view",
        lambda one: Types.STRING(),
    ),
    (
        lambda one: "binary" in str(one) and not kinds.is_nested(one),
        lambda one: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ),
    (kinds.is_decimal, lambda one: Types.BIG_DEC()),
    (kinds.is_date, lambda one: Types.SQL_DATE()),
    (kinds.is_time, _of_time),
    (kinds.is_timestamp, _of_timestamp),
    (kinds.is_dictionary, lambda one: type_info_of_arrow(one.value_type)),
    (
        kinds.is_map,
        lambda one: Types.MAP(type_info_of_arrow(one.key_type), type_info_of_arrow(one.item_type)),
    ),
    (_is_list, lambda one: Types.LIST(type_info_of_arrow(one.value_type))),
    (
        kinds.is_struct,
        lambda one: Types.ROW_NAMED(
            [field.name for field in one], [type_info_of_arrow(field.type) for field in one]
        ),
    ),
]
