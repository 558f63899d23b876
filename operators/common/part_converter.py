"""Converts parts of values, at any depth: fields of rows and tuples, elements of lists, values of maps."""

from collections.abc import Callable
from typing import Any

from penstock.operators.common.row import Row, create_row
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

Convert = Callable[[Any], Any]

_ARRAYS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


def part_converter(
    type_info: TypeInformation | None, converter_of: Callable[[TypeInformation], Convert | None]
) -> Convert | None:
    """A function that converts values of `type_info`; None if there is nothing to convert.

    `converter_of` gives what converts values of a type as a whole, or None to look into their parts. Keys of
    maps are no parts. None, and what does not look like its type, stays as it is.
    """
    if type_info is None:
        return None
    whole = converter_of(type_info)
    if whole is not None:
        return lambda value: None if value is None else whole(value)
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        converters = [part_converter(field_type, converter_of) for field_type in type_info.get_field_types()]
        names = type_info.get_field_names() if isinstance(type_info, RowTypeInfo) else None
        return _fields_converter(converters, names)
    if isinstance(type_info, MapTypeInfo):
        return _items_converter(part_converter(type_info._value_type_info, converter_of))
    if isinstance(type_info, ListTypeInfo):
        return _elements_converter(part_converter(type_info.elem_type, converter_of))
    if isinstance(type_info, _ARRAYS):
        return _elements_converter(part_converter(type_info._element_type, converter_of))
    return None


def _fields_converter(converters: list[Convert | None], names: list[str] | None) -> Convert | None:
    if not any(converters):
        return None
    by_name = dict(zip(names, converters, strict=True)) if names is not None else {}

    def convert(value: Any) -> Any:
        parts = value._values if isinstance(value, Row) else value
        if isinstance(parts, dict) and by_name:
            return {name: _converted(part, by_name.get(name)) for name, part in parts.items()}
        if not isinstance(parts, (list, tuple)) or len(parts) != len(converters):
            return value
        own_converters = converters
        if isinstance(value, Row) and value._names is not None and by_name:
            own_converters = [by_name.get(name) for name in value._names]
        fields = list(map(_converted, parts, own_converters))
        if isinstance(value, Row):
            return create_row(value._names, fields, value._row_kind)
        return tuple(fields) if isinstance(value, tuple) else fields

    return convert


def _converted(value: Any, convert: Convert | None) -> Any:
    return value if convert is None else convert(value)


def _items_converter(item: Convert | None) -> Convert | None:
    if item is None:
        return None
    return lambda value: (
        {key: item(part) for key, part in value.items()} if isinstance(value, dict) else value
    )


def _elements_converter(element: Convert | None) -> Convert | None:
    if element is None:
        return None
    return lambda value: type(value)(map(element, value)) if isinstance(value, (list, tuple)) else value
