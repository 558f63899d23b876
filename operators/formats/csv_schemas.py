"""Conversion between rows and CSV messages.

Rows within a row and arrays take one column, with the array element separator between their parts.

Source: pyflink.datastream.formats.csv, and
org.apache.flink.formats.csv.{CsvRowSerializationSchema,CsvRowDeserializationSchema}.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from penstock.operators.common.arguments import require_kind, require_text
from penstock.operators.common.arrow_types import element_type, is_bytes
from penstock.operators.common.row import create_row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from penstock.operators.formats.csv_rows import CsvSettings, parse_records, parse_value, quoting, value_text
from penstock.operators.formats.java_text import java_timestamp
from penstock.operators.formats.part_formats import DeserializationSchema, SerializationSchema

# Dates and times in CSV messages
#
# Source: org.apache.flink.formats.common.TimeFormats, java.sql.{Date,Time,Timestamp}.


Parse = Callable[[str], Any]
Write = Callable[[Any], str]

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z?)")
_LOCAL = LocalTimeTypeInfo.TimeType


def _time_kind(type_info: TypeInformation) -> object:
    """Return the key of a type of dates and times in _TIME_PARSERS and _TIME_TEXTS.

    For other types, the result is not a key of these.
    """
    if isinstance(type_info, LocalTimeTypeInfo):
        return type_info._time_type
    return "instant" if type_info == Types.INSTANT() else type(type_info)


def _moment(text: str, zone: str) -> tuple[datetime.datetime, int]:
    match = _MOMENT.fullmatch(text.strip())
    if match is None or match[3] != zone:
        raise ValueError(f"{text!r} is not a moment like 2024-01-02 03:04:05.678{zone}")
    return datetime.datetime.fromisoformat(match[1]), int((match[2] or "0").ljust(9, "0"))


def _timestamp(text: str) -> datetime.datetime:
    moment, nanos = _moment(text, "")
    return moment.replace(microsecond=nanos // 1000)


def _instant(text: str) -> Instant:
    moment, nanos = _moment(text, "Z")
    return Instant(int(moment.replace(tzinfo=datetime.UTC).timestamp()), nanos)


def _fraction(nanos: int) -> str:
    return f".{nanos:09d}".rstrip("0") if nanos else ""


def _instant_text(value: Instant) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}{_fraction(value.nanos)}Z"


#: Functions from texts to values, by `_time_kind`; they raise ValueError.
_TIME_PARSERS: dict[object, Parse] = {
    DateTypeInfo: datetime.date.fromisoformat,
    TimeTypeInfo: datetime.time.fromisoformat,
    TimestampTypeInfo: _timestamp,
    _LOCAL.LOCAL_DATE: datetime.date.fromisoformat,
    _LOCAL.LOCAL_TIME: datetime.time.fromisoformat,
    _LOCAL.LOCAL_DATE_TIME: _timestamp,
    "instant": _instant,
}
#: Functions from values to texts, by `_time_kind`.
_TIME_TEXTS: dict[object, Write] = {
    DateTypeInfo: str,
    TimeTypeInfo: lambda value: f"{value:%H:%M:%S}",
    TimestampTypeInfo: java_timestamp,
    _LOCAL.LOCAL_DATE: str,
    _LOCAL.LOCAL_TIME: str,
    _LOCAL.LOCAL_DATE_TIME: lambda value: f"{value:%Y-%m-%d %H:%M:%S}{_fraction(value.microsecond * 1000)}",
    "instant": _instant_text,
}


_ARRAYS = (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


class _Builder:
    def __init__(self, type_info: TypeInformation) -> None:
        if type_info is None:
            raise TypeError("Type information must not be None")
        if not isinstance(type_info, RowTypeInfo):
            raise TypeError(f"type_info must be a row type, got {type_info!r}")
        self._type_info = type_info
        self._settings = CsvSettings()

    def set_field_delimiter(self, delimiter: str) -> Self:
        """Set the delimiter between fields.

        Args:
            delimiter: One character; default: a comma.

        Returns:
            This builder.

        Raises:
            ValueError: Not one character.
        """
        return self._set(column_separator=_one_character(delimiter))

    def set_array_element_delimiter(self, delimiter: str) -> Self:
        """Set the delimiter between the parts of a field.

        Args:
            delimiter: A string; default: a semicolon.

        Returns:
            This builder.
        """
        return self._set(array_separator=delimiter)

    def set_quote_character(self, c: str) -> Self:
        """Set the quote around fields with special characters.

        Args:
            c: One character; default: a double quote.

        Returns:
            This builder.

        Raises:
            ValueError: Not one character.
        """
        return self._set(quote=_one_character(c))

    def set_escape_character(self, c: str) -> Self:
        """Set the character that takes the meaning of the next one away.

        Args:
            c: One character; default: none.

        Returns:
            This builder.

        Raises:
            ValueError: Not one character.
        """
        return self._set(escape=_one_character(c))

    def set_null_literal(self, null_literal: str) -> Self:
        """Set the text that represents null.

        Args:
            null_literal: A string; default: none.

        Returns:
            This builder.

        Raises:
            TypeError: Not a string.
        """
        return self._set(null_value=require_text(null_literal, "null_literal"))

    def _set(self, **settings: Any) -> Self:
        self._settings = replace(self._settings, **settings)
        return self


class CsvRowDeserializationSchema(DeserializationSchema):
    """Reads a Row from a CSV line. Create it with `CsvRowDeserializationSchema.Builder(type_info)`."""

    def __init__(
        self,
        j_deserialization_schema: Any,
        settings: CsvSettings | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        typed = isinstance(j_deserialization_schema, RowTypeInfo)
        super().__init__(None if typed else j_deserialization_schema)
        self.type_info: RowTypeInfo = j_deserialization_schema
        self.settings, self._ignore_errors = settings or CsvSettings(), ignore_parse_errors
        _ = self._fields  # raises TypeError here instead of in the subtasks

    @cached_property
    def _fields(self) -> list[Parse]:
        return [
            self._nullable(_parser(field_type, self._parts))
            for field_type in self.type_info.get_field_types()
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_fields"}

    def deserialize(self, message: bytes) -> Any:
        """Convert a CSV line to a row.

        Args:
            message: UTF-8 text; only its first record is read.

        Returns:
            Row: The fields. If errors are ignored, an invalid field is None, and an invalid line gives None.

        Raises:
            ValueError: An invalid line, unless errors are ignored.
        """
        try:
            text = message.decode().splitlines(keepends=True)
            fields = next(parse_records(text, self.settings), None)
            if fields is None:
                raise ValueError("a line is required")
            return self._row(fields)
        except ValueError as error:
            if self._ignore_errors:
                return None
            raise ValueError(f"failed to deserialize CSV row {message!r}: {error}") from error

    def _row(self, fields: list[str]) -> Any:
        names = self.type_info.get_field_names()
        if len(fields) > len(names) or (len(fields) < len(names) and not self._ignore_errors):
            raise ValueError(f"must have {len(names)} fields, got {len(fields)}")
        values = [parse(text) for parse, text in zip(self._fields, fields, strict=False)]
        return create_row(names, values + [None] * (len(names) - len(values)))

    def _parts(self, text: str) -> list[str]:
        return text.split(self.settings.array_separator) if text else []

    def _nullable(self, parse: Parse) -> Parse:
        null = self.settings.null_value

        def lenient(text: str) -> Any:
            try:
                return None if text == null else parse(text)
            except ValueError:
                if self._ignore_errors:
                    return None
                raise

        return lenient

    class Builder(_Builder):
        """Builds a CsvRowDeserializationSchema of a row type. Raises TypeError for another type."""

        _ignore_parse_errors = False

        def set_allow_comments(self, allow_comments: bool) -> Self:
            """Set whether lines that start with `#` are skipped.

            Args:
                allow_comments: A bool; default False.

            Returns:
                This builder.
            """
            return self._set(allow_comments=allow_comments)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> Self:
            """Set whether fields that cannot be parsed become null.

            Args:
                ignore_parse_errors: A bool; default False.

            Returns:
                This builder.

            Raises:
                TypeError: Not a bool.
            """
            self._ignore_parse_errors = require_kind(ignore_parse_errors, bool, "ignore_parse_errors")
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Return the schema. Raises TypeError for fields that CSV cannot represent."""
            return CsvRowDeserializationSchema(self._type_info, self._settings, self._ignore_parse_errors)


class CsvRowSerializationSchema(SerializationSchema):
    """Writes a Row as a CSV line. Create it with `CsvRowSerializationSchema.Builder(type_info)`."""

    def __init__(self, j_csv_row_serialization_schema: Any, settings: CsvSettings | None = None) -> None:
        typed = isinstance(j_csv_row_serialization_schema, RowTypeInfo)
        super().__init__(None if typed else j_csv_row_serialization_schema)
        self.type_info: RowTypeInfo = j_csv_row_serialization_schema
        self.settings = settings or CsvSettings()
        _ = self._fields  # raises TypeError here instead of in the subtasks

    @cached_property
    def _fields(self) -> list[Write]:
        return [_writer(field_type, self.settings) for field_type in self.type_info.get_field_types()]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_fields"}

    def serialize(self, element: Any) -> bytes:
        """Convert a row to a CSV line.

        Args:
            element: A Row or tuple of the declared type.

        Returns:
            bytes: The line with its end, in UTF-8.

        Raises:
            ValueError: A wrong number of fields.
        """
        if len(element) != len(self._fields):
            raise ValueError(f"must have {len(self._fields)} fields, got {len(element)} in {element!r}")
        fields = [write(value) for write, value in zip(self._fields, element, strict=True)]
        return (self.settings.column_separator.join(fields) + self.settings.line_separator).encode()

    class Builder(_Builder):
        """Builds a CsvRowSerializationSchema of a row type. Raises TypeError for another type."""

        def set_line_delimiter(self, delimiter: str) -> Self:
            """Set the line end.

            Args:
                delimiter: LF, CR, CRLF or ""; default LF.

            Returns:
                This builder.

            Raises:
                ValueError: Another text.
            """
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise ValueError(f"delimiter must be \\n, \\r, \\r\\n or empty, got {delimiter!r}")
            return self._set(line_separator=delimiter)

        def disable_quote_character(self) -> Self:
            """Use no quotes."""
            return self._set(quote=None)

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema. Raises TypeError for fields that CSV cannot represent."""
            return CsvRowSerializationSchema(self._type_info, self._settings)


def _parser(type_info: TypeInformation, parts: Callable[[str], list[str]]) -> Parse:
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        fields = [_parser(field_type, parts) for field_type in type_info.get_field_types()]

        def row(text: str) -> Any:
            texts = parts(text)
            if len(texts) != len(fields):
                raise ValueError(f"{text!r} must have {len(fields)} fields, got {len(texts)}")
            return create_row(
                names, [parse(field_text) for parse, field_text in zip(fields, texts, strict=True)]
            )

        return row
    if is_bytes(type_info):
        return lambda text: base64.b64decode(text, validate=True)
    if isinstance(type_info, _ARRAYS):
        element = _parser(element_type(type_info), parts)
        return lambda text: [element(part) for part in parts(text)]
    parse_time = _TIME_PARSERS.get(_time_kind(type_info))
    return parse_time or parse_value(type_info)


def _writer(type_info: TypeInformation, settings: CsvSettings) -> Write:
    null = settings.null_value or ""
    text = _text(type_info, settings, null)
    is_number = isinstance(type_info, BasicTypeInfo) and type_info not in (Types.STRING(), Types.INSTANT())
    write: Write = text
    if not is_number and not is_bytes(type_info):
        quoted = quoting(settings)
        write = lambda value: quoted(text(value))  # noqa: E731 either of two functions
    return lambda value: null if value is None else write(value)


def _text(type_info: TypeInformation, settings: CsvSettings, null: str) -> Write:
    if isinstance(type_info, RowTypeInfo):
        fields = [_text(field_type, settings, null) for field_type in type_info.get_field_types()]
        return lambda row: settings.array_separator.join(
            [null if item is None else write(item) for write, item in zip(fields, row, strict=True)]
        )
    if is_bytes(type_info):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(type_info, _ARRAYS):
        element = _text(element_type(type_info), settings, null)
        return lambda values: settings.array_separator.join(
            [null if item is None else element(item) for item in values]
        )
    write_time = _TIME_TEXTS.get(_time_kind(type_info))
    return write_time or value_text(type_info)


def _one_character(char: str) -> str:
    if len(char) != 1:
        raise ValueError(f"a single character is required, got {char!r}")
    return char
