"""Integers of a collection that are too large for their declared type.

Source: org.apache.flink.streaming.api.utils.PythonTypeUtils, whose converters take a Java Number's byteValue,
shortValue or intValue, which keep the lowest bits.
"""

from typing import Any

from operators.common.convert_values import INTEGER_BITS
from operators.common.part_converter import Convert, part_converter
from operators.common.typeinfo import BasicTypeInfo, MapTypeInfo, TypeInformation

_LONG = range(-(2**63), 2**63)


def wrap_integers(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """`values` with the lowest bits of integers that are too large for BYTE, SHORT and INT, at any depth.

    Integers of more than 64 bits, and what does not look like its type, stay as they are.
    """
    convert = part_converter(type_info, _wrapping)
    return values if convert is None else list(map(convert, values))


def _wrapping(type_info: TypeInformation) -> Convert | None:
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in INTEGER_BITS:
        bits = INTEGER_BITS[type_info._basic_type]
        return lambda value: _wrapped(value, bits) if type(value) is int and value in _LONG else value
    if isinstance(type_info, MapTypeInfo):
        return _of_map(
            part_converter(type_info._key_type_info, _wrapping) or _same,
            part_converter(type_info._value_type_info, _wrapping) or _same,
        )
    return None


def _wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1)) & (1 << bits) - 1) - (1 << (bits - 1))


def _of_map(of_key: Convert, of_value: Convert) -> Convert:
    return lambda value: (
        {of_key(key): of_value(one) for key, one in value.items()} if isinstance(value, dict) else value
    )


def _same(value: Any) -> Any:
    return value
