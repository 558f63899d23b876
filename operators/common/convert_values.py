"""Converts single values as PyFlink's coder of their type does, and explains values that it refuses.

Source: pyflink.fn_execution.coder_impl_fast.
"""

import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

from penstock.operators.common.basic_types import (
    BasicType,
    BasicTypeInfo,
    ExactTypeInfo,
    TypeInformation,
)
from penstock.operators.common.codec import mismatch
from penstock.operators.common.collection_types import ListTypeInfo, PrimitiveArrayTypeInfo
from penstock.operators.common.time_types import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

INTEGER_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


class Conversion(NamedTuple):
    """The conversion of values of one type."""

    kind: type  #: class of what comes back
    #: What comes back for a value that is not None. TypeError, OverflowError or ValueError if nothing does.
    convert: Callable[[Any, TypeInformation], Any]
    #: Whether a value of class `kind` comes back as it is; None: every value that comes back does.
    unchanged: Callable[[Any], bool] | None = None


def conversion_of(type_info: TypeInformation) -> Conversion:
    """The conversion of a type of single values; TypeError for other types."""
    if isinstance(type_info, ExactTypeInfo):
        return Conversion(_BASIC[type_info._basic_type].kind, _exact)
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _BASIC:
        return _BASIC[type_info._basic_type]
    if isinstance(type_info, LocalTimeTypeInfo):
        return _LOCAL[type_info._time_type]
    for kind, conversion in _OTHER.items():
        if isinstance(type_info, kind):
            return conversion
    raise TypeError(f"values of {type_info!r} have no coder")


def _string(value: Any, type_info: TypeInformation) -> str:
    if not isinstance(value, str):
        raise TypeError(mismatch(value, type_info))
    return "".join((value,))


def _boolean(value: Any, type_info: TypeInformation) -> bool:
    number = _whole(value, type_info)
    if not 0 <= number < 256:
        raise OverflowError(mismatch(value, type_info))
    return number != 0


def _whole(value: Any, type_info: TypeInformation) -> int:
    if not (hasattr(type(value), "__int__") or hasattr(type(value), "__index__")) or isinstance(
        value, complex
    ):
        raise TypeError(mismatch(value, type_info))
    try:
        return int(value)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ValueError(mismatch(value, type_info)) from error


def _exact(value: Any, type_info: TypeInformation) -> int | bool:
    if _whole(value, type_info) != value:
        raise ValueError(mismatch(value, type_info, "it is not a whole number"))
    if type_info._basic_type is not BasicType.BOOLEAN:  # type: ignore[attr-defined]
        return _integer(value, type_info)
    if value not in (0, 1):
        raise ValueError(mismatch(value, type_info))
    return bool(value)


def _integer(value: Any, type_info: TypeInformation) -> int:
    number = _whole(value, type_info)
    bits = INTEGER_BITS[type_info._basic_type]  # type: ignore[attr-defined]
    if number >> (bits - 1) not in (0, -1):
        raise OverflowError(mismatch(value, type_info, f"it does not fit {bits} bits"))
    return number


def _double(value: Any, type_info: TypeInformation) -> float:
    if isinstance(value, (str, bytes, bytearray, complex)):
        raise TypeError(mismatch(value, type_info))
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else OverflowError
        raise kind(mismatch(value, type_info)) from error


def _float(value: Any, type_info: TypeInformation) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(_double(value, type_info)))


def _decimal(value: Any, type_info: TypeInformation) -> Decimal:
    try:
        decimal = Decimal(str(value))
    except InvalidOperation as error:
        raise TypeError(mismatch(value, type_info)) from error
    if not decimal.is_finite():
        raise ValueError(mismatch(value, type_info, "it is not finite"))
    return decimal if decimal else decimal.copy_abs()


def _date(value: Any, type_info: TypeInformation) -> datetime.date:
    if not isinstance(value, datetime.date):
        raise TypeError(mismatch(value, type_info))
    return datetime.date(value.year, value.month, value.day)


def _microseconds(value: Any) -> int:
    microseconds: int = value.microsecond
    return microseconds


def _milliseconds(value: Any) -> int:
    microseconds: int = value.microsecond // 1000 * 1000
    return microseconds


def _time(fraction: Callable[[Any], int]) -> Callable[[Any, TypeInformation], datetime.time]:
    def convert(value: Any, type_info: TypeInformation) -> datetime.time:
        if not isinstance(value, (datetime.time, datetime.datetime)):
            raise TypeError(mismatch(value, type_info))
        return datetime.time(value.hour, value.minute, value.second, fraction(value))

    return convert


def _timestamp(fraction: Callable[[Any], int]) -> Callable[[Any, TypeInformation], datetime.datetime]:
    def convert(value: Any, type_info: TypeInformation) -> datetime.datetime:
        if not isinstance(value, datetime.datetime):
            raise TypeError(mismatch(value, type_info))
        return datetime.datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, fraction(value)
        )

    return convert


def _bytes(value: Any, type_info: TypeInformation) -> bytes:
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(mismatch(value, type_info))
    return bytes(value)


def _local(value: Any) -> bool:
    return value.tzinfo is None


def _whole_milliseconds(value: Any) -> bool:
    return value.tzinfo is None and value.microsecond % 1000 == 0


_LOCAL_TIMES = LocalTimeTypeInfo.TimeType
_BASIC = {
    BasicType.STRING: Conversion(str, _string),
    BasicType.CHAR: Conversion(str, _string),
    BasicType.BOOLEAN: Conversion(bool, _boolean),
    **{integer_type: Conversion(int, _integer) for integer_type in INTEGER_BITS},
    BasicType.FLOAT: Conversion(float, _float),
    BasicType.DOUBLE: Conversion(float, _double),
    BasicType.BIG_INT: Conversion(int, _whole),
    BasicType.BIG_DEC: Conversion(
        Decimal, _decimal, lambda value: value.is_finite() and bool(value or not value.is_signed())
    ),
}
_LOCAL = {
    _LOCAL_TIMES.LOCAL_DATE: Conversion(datetime.date, _date),
    _LOCAL_TIMES.LOCAL_TIME: Conversion(datetime.time, _time(_microseconds), _local),
    _LOCAL_TIMES.LOCAL_DATE_TIME: Conversion(datetime.datetime, _timestamp(_microseconds), _local),
}
_OTHER: dict[type, Conversion] = {
    DateTypeInfo: Conversion(datetime.date, _date),
    TimeTypeInfo: Conversion(datetime.time, _time(_milliseconds), _whole_milliseconds),
    TimestampTypeInfo: Conversion(datetime.datetime, _timestamp(_milliseconds), _whole_milliseconds),
    PrimitiveArrayTypeInfo: Conversion(bytes, _bytes),
    ListTypeInfo: Conversion(bytes, _bytes),
}
