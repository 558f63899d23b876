"""Records as `execute_and_collect` gives them, which differs from how functions see them for arrays of bytes.

Source: pyflink.datastream.utils.pickled_bytes_to_python_obj.
"""

from collections.abc import Callable
from typing import Any

from operators.common.row import create_row
from operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


def collected_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """The records of type `type_info`; arrays of BYTE become lists of ints from -128 to 127, at any depth."""
    convert = _converter(type_info)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(type_info: TypeInformation | None) -> Callable[[Any], Any] | None:
    """The function that converts a value other than None; None if no conversion is needed."""
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        return _of_fields(type_info)
    if isinstance(type_info, MapTypeInfo):
        item = _converter(type_info._value_type_info)
        return (
            None if item is None else lambda value: {key: _present(item, one) for key, one in value.items()}
        )
    if isinstance(type_info, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)):
        element_type = type_info._element_type
    elif isinstance(type_info, ListTypeInfo):
        element_type = type_info.elem_type
    else:
        return None
    if isinstance(element_type, BasicTypeInfo) and element_type._basic_type is BasicType.BYTE:
        return lambda value: list(memoryview(value).cast("b")) if isinstance(value, bytes) else value
    element = _converter(element_type)
    return None if element is None else lambda value: [_present(element, one) for one in value]


def _of_fields(type_info: TupleTypeInfo | RowTypeInfo) -> Callable[[Any], Any] | None:
    converters = [_converter(one) for one in type_info.get_field_types()]
    if not any(converters):
        return None

    def fields(values: Any) -> list[Any]:
        return [
            one if convert is None else _present(convert, one)
            for one, convert in zip(values, converters, strict=True)
        ]

    if isinstance(type_info, TupleTypeInfo):
        return lambda value: tuple(fields(value))
    return lambda value: create_row(value._names, fields(value._values), value._row_kind)


def _present(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)
