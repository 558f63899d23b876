"""The text of a record in Java, for lines of text files and, mostly, for printed lines.

Source: toString of java.lang.Double, java.sql.Timestamp, java.time.Instant, java.util.AbstractCollection and
AbstractMap, org.apache.flink.api.java.tuple.Tuple and org.apache.flink.types.Row; and
pyflink.datastream.DataStream._align_output_type for the records that PyFlink prints in Python's own way.
"""

import datetime
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.operators.common.basic_types import ForeignTypeInfo
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

Text = Callable[[Any], str]


def printed_text(type_info: TypeInformation | None) -> Text:
    """Return the text that `print` writes: str without a declared type, `+I[a,b]` for rows, else Java's."""
    if isinstance(type_info, (RowTypeInfo, ExternalTypeInfo)):
        return _printed_row
    return java_text(type_info)


def java_text(type_info: TypeInformation | None) -> Text:
    """Return Java's toString of a record of the type; str of records without a declared type."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return str
    text = _text_by_type(type_info)
    return lambda value: "null" if value is None else text(value)


def java_text_of_any(value: Any) -> str:
    """Return Java's text of a value without a declared type; a float is a Double, an int is not bounded."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    for kind, text in _ANY.items():
        if isinstance(value, kind):
            return text(value)
    return str(value)


def _text_by_type(type_info: TypeInformation) -> Text:
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC.get(type_info._basic_type, str)
    if isinstance(type_info, RowTypeInfo):
        return _row(list(map(java_text, type_info.get_field_types())))
    if isinstance(type_info, TupleTypeInfo):
        fields = type_info.get_field_types()
        return (_plain_tuple if all(map(_is_str, fields)) else _tuple)(fields)
    if isinstance(type_info, ListTypeInfo):
        return _elements(java_text(type_info.elem_type))
    if isinstance(type_info, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return _elements(java_text(type_info._element_type))
    if isinstance(type_info, MapTypeInfo):
        return _map(java_text(type_info._key_type_info), java_text(type_info._value_type_info))
    same = type_info._type_info if isinstance(type_info, ExternalTypeInfo) else None
    if isinstance(type_info, ForeignTypeInfo):
        same = type_info.value_type
    if same is not None:
        return java_text(same)
    return _TIMES.get(type(type_info), str)


def java_double(value: float) -> str:
    """Return `1.0`, `1.0E10`, `NaN`, `-Infinity`: with an exponent below 0.001 and from 10 million."""
    return _java_float(value, repr(value), value)


def java_float(value: float) -> str:
    """Return the text of a 32-bit number in the form of `java_double`."""
    single = np.float32(value)
    return _java_float(value, str(single), single)


def java_boolean(value: bool) -> str:
    """Return `true` or `false`."""
    return "true" if value else "false"


def java_timestamp(value: datetime.datetime) -> str:
    """Return `2024-02-03 04:05:06.12`: at least one digit after the point, without further trailing zeros."""
    fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
    return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"


def java_instant(value: Instant) -> str:
    """Return `1970-01-01T00:00:01.500Z`: no digits after the point, or three, six or nine."""
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    fraction = f".{value.nanos:09d}" if value.nanos else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{moment.isoformat()}{fraction}Z"


def _java_float(value: float, shortest: str, number: Any) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return shortest if "." in shortest and "e" not in shortest else _plain(number)
    mantissa, _, exponent = shortest.partition("e")
    if not exponent:
        shortest = np.format_float_scientific(number, trim="0")
        mantissa, _, exponent = shortest.partition("e")
    elif "." not in mantissa:
        # Java writes a digit after the point, the one nearest to the number
        mantissa, _, exponent = f"{number:.1e}".partition("e")
    return f"{mantissa}E{int(exponent)}"


def _plain(number: Any) -> str:
    return np.format_float_positional(number, trim="0")


def _printed_row(row: Any) -> str:
    if not isinstance(row, Row):
        raise TypeError(f"the stream has records of type Row, got {type(row).__name__}")
    return f"{row.get_row_kind()}[{','.join(map(str, row))}]"


def _row(fields: list[Text]) -> Text:
    fields_text = _sequence(fields, "[", ", ", "]")
    return lambda row: (str(row.get_row_kind()) if isinstance(row, Row) else "+I") + fields_text(row)


def _tuple(fields: list[TypeInformation]) -> Text:
    return _sequence(list(map(java_text, fields)), "(", ",", ")")


def _plain_tuple(fields: list[TypeInformation]) -> Text:
    """Return the text of tuples whose fields have the text of str, integers and strings: most tuples."""
    size, general_text = len(fields), _tuple(fields)

    def text(values: Any) -> str:
        if len(values) != size or None in values:
            return general_text(values)
        return f"({','.join(map(str, values))})"

    return text


def _is_str(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and _text_by_type(type_info) is str


def _sequence(fields: list[Text], start: str, between: str, end: str) -> Text:
    def text(values: Any) -> str:
        return (
            start
            + between.join([field_text(value) for field_text, value in zip(fields, values, strict=True)])
            + end
        )

    return text


def _elements(element: Text) -> Text:
    return lambda values: f"[{', '.join(map(element, values))}]"


def _map(key: Text, item: Text) -> Text:
    return lambda values: (
        f"{{{', '.join(f'{key(entry_key)}={item(values[entry_key])}' for entry_key in values)}}}"
    )


_BASIC: dict[BasicType, Text] = {
    BasicType.BOOLEAN: java_boolean,
    BasicType.FLOAT: java_float,
    BasicType.DOUBLE: java_double,
    BasicType.INSTANT: java_instant,
}

_TIMES: dict[type, Text] = {
    DateTypeInfo: str,
    LocalTimeTypeInfo: lambda value: value.isoformat(),
    TimeTypeInfo: lambda value: value.strftime("%H:%M:%S"),
    TimestampTypeInfo: java_timestamp,
}

_ANY: dict[type, Text] = {
    bool: java_boolean,
    float: java_double,
    Row: lambda row: f"{row.get_row_kind()}{_elements(java_text_of_any)(row)}",
    tuple: lambda values: f"({','.join(map(java_text_of_any, values))})",
    list: _elements(java_text_of_any),
    dict: _map(java_text_of_any, java_text_of_any),
    Instant: java_instant,
    datetime.datetime: java_timestamp,
    datetime.time: _TIMES[TimeTypeInfo],
}
