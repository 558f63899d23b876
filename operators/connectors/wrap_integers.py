"""Integers of a collection that are too large for their declared type.

Source: org.apache.flink.streaming.api.utils.PythonTypeUtils, whose converters take a Java Number's byteValue,
shortValue or intValue, which keep the lowest bits.
"""

from typing import Any

from operators.common.convert_values import INTEGER_BITS
from operators.common.row import Row, create_row
from operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_LONG = range(-(2**63), 2**63)
_ARRAYS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


def wrap_integers(value: Any, type_info: TypeInformation | None) -> Any:
    """`value` with the lowest bits of integers that are too large for BYTE, SHORT and INT, at any depth.

    Integers of more than 64 bits, and what does not look like its type, stay as they are.
    """
    if isinstance(type_info, BasicTypeInfo):
        bits = INTEGER_BITS.get(type_info._basic_type)
        if bits is None or type(value) is not int or value not in _LONG:
            return value
        return (value + (1 << (bits - 1)) & (1 << bits) - 1) - (1 << (bits - 1))
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        return _with_fields(value, type_info.get_field_types())
    if isinstance(type_info, MapTypeInfo) and isinstance(value, dict):
        keys, items = type_info._key_type_info, type_info._value_type_info
        return {wrap_integers(key, keys): wrap_integers(item, items) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and isinstance(type_info, (*_ARRAYS, ListTypeInfo)):
        element = type_info.elem_type if isinstance(type_info, ListTypeInfo) else type_info._element_type
        return type(value)([wrap_integers(one, element) for one in value])
    return value


def _with_fields(value: Any, types: list[TypeInformation]) -> Any:
    given = value._values if isinstance(value, Row) else value
    if not isinstance(given, (list, tuple)) or len(given) != len(types):
        return value
    fields = [wrap_integers(one, type_info) for one, type_info in zip(given, types, strict=True)]
    if isinstance(value, Row):
        return create_row(value._names, fields, value._row_kind)
    return tuple(fields) if isinstance(value, tuple) else fields
