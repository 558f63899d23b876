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
    """What converts a value of `type_info`; None if there is nothing to convert in it.

    `converter_of` gives what converts values of a type as a whole, or None to look into their parts. Keys of
    maps are no parts. None, and what does not look like its type, stays as it is.
    """
    if type_info is None:
        return None
    whole = converter_of(type_info)
    if whole is not None:
        return lambda value: None if value is None else whole(value)
    if isinstance(type_info, (TupleTypeInfo, RowTypeInfo)):
        converters = [part_converter(one, converter_of) for one in type_info.get_field_types()]
        names = type_info.get_field_names() if isinstance(type_info, RowTypeInfo) else None
        return _of_fields(converters, names)
    if isinstance(type_info, MapTypeInfo):
        return _of_items(part_converter(type_info._value_type_info, converter_of))
    if isinstance(type_info, ListTypeInfo):
        return _of_elements(part_converter(type_info.elem_type, converter_of))
    if isinstance(type_info, _ARRAYS):
        return _of_elements(part_converter(type_info._element_type, converter_of))
    return None


def _of_fields(converters: list[Convert | None], names: list[str] | None) -> Convert | None:
    if not any(converters):
        return None
    by_name = dict(zip(names, converters, strict=True)) if names is not None else {}

    def convert(value: Any) -> Any:
        given = value._values if isinstance(value, Row) else value
        if isinstance(given, dict) and by_name:
            return {name: _converted(one, by_name.get(name)) for name, one in given.items()}
        if not isinstance(given, (list, tuple)) or len(given) != len(converters):
            return value
        those = converters
        if isinstance(value, Row) and value._names is not None and by_name:
            those = [by_name.get(name) for name in value._names]
        fields = list(map(_converted, given, those))
        if isinstance(value, Row):
            return create_row(value._names, fields, value._row_kind)
        return tuple(fields) if isinstance(value, tuple) else fields

    return convert


def _converted(value: Any, convert: Convert | None) -> Any:
    return value if convert is None else convert(value)


def _of_items(item: Convert | None) -> Convert | None:
    if item is None:
        return None
    return lambda value: {key: item(one) for key, one in value.items()} if isinstance(value, dict) else value


def _of_elements(element: Convert | None) -> Convert | None:
    if element is None:
        return None
    return lambda value: type(value)(map(element, value)) if isinstance(value, (list, tuple)) else value
