"""`Types`, and all classes of types under the module's name in PyFlink. Source: pyflink.common.typeinfo."""

from __future__ import annotations

import calendar
import datetime
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from penstock.operators.common.basic_types import (
    BasicType,
    BasicTypeInfo,
    InstantTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    require_type,
)
from penstock.operators.common.row import Row, create_row

# Types of dates and times of day. Source: pyflink.common.typeinfo


class SqlTimeTypeInfo(TypeInformation):
    """Creates the types of java.sql."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        """Return the type of datetime.date."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        """Return the type of datetime.time, to the millisecond."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        """Return the type of datetime.datetime without time zone, to the millisecond."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """datetime.date."""

    EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, d: datetime.date | None) -> int | None:
        """Convert a date to days since the epoch.

        Args:
            d: A datetime.date, or None.

        Returns:
            int | None: Days.
        """
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: int | None) -> datetime.date | None:
        """Convert days since the epoch to a date.

        Args:
            v: Days, or None.

        Returns:
            datetime.date | None: The date.
        """
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)

    def _identity(self) -> tuple[Any, ...]:
        return (DateTypeInfo,)

    def __repr__(self) -> str:
        return "DateTypeInfo"


class TimeTypeInfo(TypeInformation):
    """datetime.time, to the millisecond."""

    #: Microseconds by which local time is ahead of UTC at the epoch.
    EPOCH_ORDINAL = calendar.timegm(time.localtime(0)) * 10**6

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, t: datetime.time | None) -> int | None:
        """Convert a time of day to microseconds since midnight in UTC.

        Args:
            t: A datetime.time, local if it has no time zone; or None.

        Returns:
            int | None: Microseconds.
        """
        if t is None:
            return None
        offset = self.EPOCH_ORDINAL
        if t.tzinfo is not None:
            offset = (t.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
        return ((t.hour * 60 + t.minute) * 60 + t.second) * 10**6 + t.microsecond - offset

    def from_internal_type(self, t: int | None) -> datetime.time | None:
        """Convert microseconds since midnight in UTC to a local time of day.

        Args:
            t: Microseconds, or None.

        Returns:
            datetime.time | None: The time.
        """
        if t is None:
            return None
        seconds, microseconds = divmod(t + self.EPOCH_ORDINAL, 10**6)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour, minute, second, microseconds)

    def _identity(self) -> tuple[Any, ...]:
        return (TimeTypeInfo,)

    def __repr__(self) -> str:
        return "TimeTypeInfo"


class TimestampTypeInfo(TypeInformation):
    """datetime.datetime without time zone, to the millisecond."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, dt: datetime.datetime | None) -> int | None:
        """Convert a timestamp to microseconds since the epoch.

        Args:
            dt: A datetime.datetime, local if it has no time zone; or None.

        Returns:
            int | None: Microseconds.
        """
        if dt is None:
            return None
        seconds = calendar.timegm(dt.utctimetuple()) if dt.tzinfo else time.mktime(dt.timetuple())
        return int(seconds) * 10**6 + dt.microsecond

    def from_internal_type(self, ts: int | None) -> datetime.datetime | None:
        """Convert microseconds since the epoch to a local timestamp.

        Args:
            ts: Microseconds, or None.

        Returns:
            datetime.datetime | None: The timestamp.
        """
        if ts is None:
            return None
        return datetime.datetime.fromtimestamp(ts // 10**6).replace(microsecond=ts % 10**6)

    def _identity(self) -> tuple[Any, ...]:
        return (TimestampTypeInfo,)

    def __repr__(self) -> str:
        return "TimestampTypeInfo"


class LocalTimeTypeInfo(TypeInformation):
    """The types of java.time without time zone, to the microsecond."""

    class TimeType(Enum):
        """datetime.date, datetime.time, datetime.datetime."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        self._time_type = time_type

    def _identity(self) -> tuple[Any, ...]:
        return (LocalTimeTypeInfo, self._time_type)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"


# Types of arrays, lists and maps. Source: pyflink.common.typeinfo


_PRIMITIVE: Final = frozenset(
    {
        BasicType.BOOLEAN, BasicType.BYTE, BasicType.SHORT, BasicType.INT,
        BasicType.LONG, BasicType.FLOAT, BasicType.DOUBLE, BasicType.CHAR,
    }
)  # fmt: skip


class PrimitiveArrayTypeInfo(TypeInformation):
    """A list of numbers, booleans or characters, none of them None; bytes if the elements are BYTE."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, "the element type of a primitive array")

    def _identity(self) -> tuple[Any, ...]:
        return (PrimitiveArrayTypeInfo, self._element_type)

    def __repr__(self) -> str:
        return f"PrimitiveArrayTypeInfo<{self._element_type}>"


class BasicArrayTypeInfo(TypeInformation):
    """A list of numbers, booleans, characters or strings."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, "the element type of a basic array")

    def _identity(self) -> tuple[Any, ...]:
        return (BasicArrayTypeInfo, self._element_type)

    def __repr__(self) -> str:
        return f"BasicArrayTypeInfo<{self._element_type}>"


class ObjectArrayTypeInfo(TypeInformation):
    """A list of values of any one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, "the element type of an object array")

    def _identity(self) -> tuple[Any, ...]:
        return (ObjectArrayTypeInfo, self._element_type)

    def __repr__(self) -> str:
        return f"ObjectArrayTypeInfo<{self._element_type}>"


class ListTypeInfo(TypeInformation):
    """A list of values of any one type; bytes if the elements are BYTE."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = require_type(element_type, "the element type of a list")

    def _identity(self) -> tuple[Any, ...]:
        return (ListTypeInfo, self.elem_type)

    def __repr__(self) -> str:
        return f"ListTypeInfo<{self.elem_type}>"


class MapTypeInfo(TypeInformation):
    """A dict; its keys must not be None, its values may."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = require_type(key_type_info, "the key type of a map")
        self._value_type_info = require_type(value_type_info, "the value type of a map")

    def _identity(self) -> tuple[Any, ...]:
        return (MapTypeInfo, self._key_type_info, self._value_type_info)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class ExternalTypeInfo(TypeInformation):
    """The same values as for `type_info`, in tables."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = require_type(type_info, "the type of an external type")

    def _identity(self) -> tuple[Any, ...]:
        return (ExternalTypeInfo, self._type_info)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"


def check_element_type(array: TypeInformation) -> None:
    """Raise TypeError if Java has no array of this sort with such elements."""
    if not isinstance(array, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo)):
        return
    element = array._element_type
    allowed = _PRIMITIVE | ({BasicType.STRING} if isinstance(array, BasicArrayTypeInfo) else set())
    if not isinstance(element, BasicTypeInfo) or element._basic_type not in allowed:
        raise TypeError(f"Java has no array like {array}")


__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


class Types:
    """The types of records, keys and state.

    Examples:
        >>> from penstock.common import Types
        >>> Types.TUPLE([Types.STRING(), Types.LONG()]) == Types.TUPLE([Types.STRING(), Types.LONG()])
        True
    """

    @staticmethod
    def STRING() -> TypeInformation:
        """str."""
        return BasicTypeInfo.STRING_TYPE_INFO()

    @staticmethod
    def BYTE() -> TypeInformation:
        """int of 8 bits."""
        return BasicTypeInfo.BYTE_TYPE_INFO()

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        """bool."""
        return BasicTypeInfo.BOOLEAN_TYPE_INFO()

    @staticmethod
    def SHORT() -> TypeInformation:
        """int of 16 bits."""
        return BasicTypeInfo.SHORT_TYPE_INFO()

    @staticmethod
    def INT() -> TypeInformation:
        """int of 32 bits."""
        return BasicTypeInfo.INT_TYPE_INFO()

    @staticmethod
    def LONG() -> TypeInformation:
        """int of 64 bits."""
        return BasicTypeInfo.LONG_TYPE_INFO()

    @staticmethod
    def FLOAT() -> TypeInformation:
        """float of 32 bits."""
        return BasicTypeInfo.FLOAT_TYPE_INFO()

    @staticmethod
    def DOUBLE() -> TypeInformation:
        """float."""
        return BasicTypeInfo.DOUBLE_TYPE_INFO()

    @staticmethod
    def CHAR() -> TypeInformation:
        """str, meant to be of one character."""
        return BasicTypeInfo.CHAR_TYPE_INFO()

    @staticmethod
    def BIG_INT() -> TypeInformation:
        """int of any size."""
        return BasicTypeInfo.BIG_INT_TYPE_INFO()

    @staticmethod
    def BIG_DEC() -> TypeInformation:
        """decimal.Decimal, finite."""
        return BasicTypeInfo.BIG_DEC_TYPE_INFO()

    @staticmethod
    def INSTANT() -> TypeInformation:
        """Instant."""
        return BasicTypeInfo.INSTANT_TYPE_INFO()

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        """datetime.date."""
        return SqlTimeTypeInfo.DATE()

    @staticmethod
    def SQL_TIME() -> TypeInformation:
        """datetime.time, to the millisecond."""
        return SqlTimeTypeInfo.TIME()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        """datetime.datetime without time zone, to the millisecond."""
        return SqlTimeTypeInfo.TIMESTAMP()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:
        """Any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:
        """Return a type of rows with fields f0, f1, ….

        Args:
            field_types: Type of each field.

        Returns:
            RowTypeInfo: For `Row`.

        Raises:
            TypeError: An argument is not a type.
        """
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: list[str], field_types: list[TypeInformation]) -> RowTypeInfo:
        """Return a type of rows.

        Args:
            field_names: Name of each field.
            field_types: Type of each field.

        Returns:
            RowTypeInfo: For `Row`.

        Raises:
            TypeError: An argument is not a type.
        """
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:
        """Return a type of tuples.

        Args:
            field_types: Type of each field.

        Returns:
            TupleTypeInfo: For tuples.

        Raises:
            TypeError: An argument is not a type.
        """
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        """Return a type of lists without None.

        Args:
            element_type: BYTE (then of bytes), BOOLEAN, CHAR or a type of numbers.

        Returns:
            PrimitiveArrayTypeInfo: For lists.

        Raises:
            TypeError: Another type.
        """
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return a type of lists.

        Args:
            element_type: BOOLEAN, CHAR, STRING or a type of numbers.

        Returns:
            BasicArrayTypeInfo: For lists.

        Raises:
            TypeError: Another type.
        """
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:
        """Return a type of lists.

        Args:
            element_type: Any type.

        Returns:
            ObjectArrayTypeInfo: For lists.

        Raises:
            TypeError: Not a type.
        """
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:
        """Return a type of dicts.

        Args:
            key_type_info: Type of the keys.
            value_type_info: Type of the values.

        Returns:
            MapTypeInfo: For dicts.

        Raises:
            TypeError: An argument is not a type.
        """
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:
        """Return a type of lists.

        Args:
            element_type_info: Any type; of BYTE: bytes.

        Returns:
            ListTypeInfo: For lists.

        Raises:
            TypeError: Not a type.
        """
        return ListTypeInfo(element_type_info)


# Conversion of parts of values, at any depth: fields of rows and tuples, elements of lists, map values


Convert = Callable[[Any], Any]

_ARRAYS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


def part_converter(
    type_info: TypeInformation | None, converter_of: Callable[[TypeInformation], Convert | None]
) -> Convert | None:
    """Return a function that converts values of `type_info`; None if no part needs it.

    `converter_of` returns a function that converts values of a type as a whole, or None to convert their
    parts. Keys of maps are not parts. None, and values that do not match their type, are returned unchanged.
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
