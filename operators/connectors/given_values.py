"""Values of a collection as PyFlink hands them to Flink; what would lose a part on the way is refused.

Moments and times of day with a time zone become local ones, and integers that are too large for BYTE, SHORT
and INT keep their lowest bits. PyFlink makes nulls of numbers of another kind, such as 1.5 under INT; here
they are an error unless their value is one of the type.

Source: pyflink.common.typeinfo.{TimestampTypeInfo,TimeTypeInfo}.to_internal_type;
org.apache.flink.streaming.api.utils.PythonTypeUtils, whose converters take a Java Number's byteValue,
shortValue or intValue.
"""

import datetime
from typing import Any

from penstock.operators.common.basic_types import BasicType
from penstock.operators.common.codec import mismatch
from penstock.operators.common.convert_values import INTEGER_BITS
from penstock.operators.common.part_converter import Convert, part_converter
from penstock.operators.common.typeinfo import (
    BasicTypeInfo,
    MapTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)

_LONG = range(-(2**63), 2**63)
_DAY = 24 * 60 * 60 * 10**6


def given_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """`values`, converted at any depth. TypeError where a number would lose a part of its value.

    Integers of more than 64 bits, and what does not look like its type, stay as they are.
    """
    convert = part_converter(type_info, _converter)
    if convert is None or (isinstance(type_info, BasicTypeInfo) and _is_plain(values, type_info._basic_type)):
        return values
    return list(map(convert, values))


def _is_plain(values: list[Any], basic: BasicType) -> bool:
    if set(map(type, values)) == {int}:
        most = 1 << INTEGER_BITS.get(basic, 1) - 1
        return bool(-most <= min(values) and max(values) < most)
    return False


def _converter(type_info: TypeInformation) -> Convert | None:
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in INTEGER_BITS:
        return lambda value: _integer(value, type_info)
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type is BasicType.BOOLEAN:
        return lambda value: _boolean(value, type_info)
    if isinstance(type_info, TimestampTypeInfo):
        return _local_moment
    if isinstance(type_info, TimeTypeInfo):
        return _local_time
    if isinstance(type_info, MapTypeInfo):
        return _of_map(
            part_converter(type_info._key_type_info, _converter) or _same,
            part_converter(type_info._value_type_info, _converter) or _same,
        )
    return None


def _integer(value: Any, type_info: BasicTypeInfo) -> Any:
    if type(value) is int:
        bits = INTEGER_BITS[type_info._basic_type]
        half = 1 << (bits - 1)
        if -half <= value < half or value not in _LONG:
            return value
        return (value + half & (1 << bits) - 1) - half
    if hasattr(value, "__int__") and not isinstance(value, str) and value == value and value != int(value):
        raise TypeError(mismatch(value, type_info, "it is no whole number"))
    return value


def _boolean(value: Any, type_info: BasicTypeInfo) -> Any:
    if type(value) is not bool and hasattr(value, "__int__") and value not in (0, 1):
        raise TypeError(mismatch(value, type_info))
    return value


def _local_moment(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    return value


def _local_time(value: Any) -> Any:
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        microseconds = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        offset = (value.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
        local = (microseconds - offset + TimeTypeInfo.EPOCH_ORDINAL) % _DAY
        return (datetime.datetime.min + datetime.timedelta(microseconds=local)).time()
    return value


def _of_map(of_key: Convert, of_value: Convert) -> Convert:
    return lambda value: (
        {of_key(key): of_value(one) for key, one in value.items()} if isinstance(value, dict) else value
    )


def _same(value: Any) -> Any:
    return value
