"""Conversion between rows and the fields of CSV, as in Flink's CSV format.

Source: org.apache.flink.formats.csv.{CsvToRowDataConverters,RowDataToCsvConverters}, and the quoting of
Jackson's com.fasterxml.jackson.dataformat.csv.impl.CsvEncoder.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Self

import numpy as np

from penstock.operators.common.composite_codecs import INTEGER_BITS
from penstock.operators.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ObjectArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)
from penstock.operators.formats.data_types import DecimalTypeInfo, as_type
from penstock.operators.formats.java_text import java_boolean, java_double, java_float

# The schema of CSV files, and its builder
#
# Source: pyflink.datastream.formats.csv, and Jackson's com.fasterxml.jackson.dataformat.csv.CsvSchema.


#: The default separator between elements of arrays.
ARRAY_SEPARATOR = ";"


@dataclass(frozen=True)
class CsvColumn:
    """A column; `array_separator` separates the elements of an array, "" means the schema's separator."""

    name: str
    type_info: TypeInformation
    array_separator: str = ""


@dataclass(frozen=True)
class CsvSettings:
    """Settings for writing and reading CSV."""

    column_separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    line_separator: str = "\n"
    null_value: str | None = None  #: None: null is written as an empty field, and no field is read as null
    array_separator: str = ARRAY_SEPARATOR
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    allow_comments: bool = False
    any_property_name: str | None = None


@dataclass(frozen=True)
class CsvSchema:
    """Columns and settings. Create it with `builder`."""

    columns: tuple[CsvColumn, ...]
    settings: CsvSettings = CsvSettings()

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder without columns."""
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> RowTypeInfo:
        """Return the type of the rows."""
        return Types.ROW_NAMED(
            [column.name for column in self.columns], [column.type_info for column in self.columns]
        )

    def separator_of(self, column: CsvColumn) -> str:
        """Return the separator between the elements of an array column.

        Args:
            column: A column of the schema.

        Returns:
            str: The column's own or the schema's separator; "" if arrays are disabled.
        """
        return column.array_separator or self.settings.array_separator

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        names = ", ".join(f"{column.name}: {column.type_info}" for column in self.columns)
        return f"CsvSchema({names}; {self.settings})"


class CsvSchemaBuilder:
    """Builds a CsvSchema. Types are TypeInformation (`Types.INT()`)."""

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._settings = CsvSettings()

    def build(self) -> CsvSchema:
        """Return the schema. Raises ValueError if a name occurs twice."""
        schema = CsvSchema(tuple(self._columns), self._settings)
        _ = schema.row_type
        return schema

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> Self:
        """Add a column of lists, whose elements share one CSV value.

        Args:
            name: Unique name of the column.
            separator: Text between elements; "": the schema's separator. Default: a semicolon.
            element_type: Type of the elements; default: strings.

        Returns:
            This builder.

        Raises:
            TypeError: Not a type.
        """
        element = Types.STRING() if element_type is None else as_type(element_type)
        self._columns.append(CsvColumn(name, Types.OBJECT_ARRAY(element), separator))
        return self

    def add_boolean_column(self, name: str) -> Self:
        """Add a column of booleans: `true`, in any case, is true; all other values are false.

        Args:
            name: Unique name of the column.

        Returns:
            This builder.
        """
        self._columns.append(CsvColumn(name, Types.BOOLEAN()))
        return self

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> Self:
        """Add a column of numbers.

        Args:
            name: Unique name of the column.
            number_type: Type of the numbers; default: Types.LONG().

        Returns:
            This builder.

        Raises:
            TypeError: Not a type.
        """
        number = Types.LONG() if number_type is None else as_type(number_type)
        self._columns.append(CsvColumn(name, number))
        return self

    def add_string_column(self, name: str) -> Self:
        """Add a column of strings.

        Args:
            name: Unique name of the column.

        Returns:
            This builder.
        """
        self._columns.append(CsvColumn(name, Types.STRING()))
        return self

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """Add the columns of another schema.

        Args:
            schema: A CsvSchema.

        Returns:
            This builder.
        """
        self._columns.extend(schema.columns)
        return self

    def clear_columns(self) -> Self:
        """Remove all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Set whether lines that start with `#` are skipped.

        Args:
            allow: A bool; the default of a schema is False.

        Returns:
            This builder.
        """
        return self._set(allow_comments=allow)

    def set_any_property_name(self, name: str) -> Self:
        """Let lines have more values than there are columns; extra values are dropped.

        Args:
            name: Any string; it is not used.

        Returns:
            This builder.
        """
        return self._set(any_property_name=name)

    def disable_array_element_separator(self) -> Self:
        """Use no separator for array columns without their own."""
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> Self:
        """Make an array column use the schema's separator.

        Args:
            index: Position of the column, from 0.

        Returns:
            This builder.

        Raises:
            IndexError: There is no such column.
        """
        self._columns[index] = replace(self._columns[index], array_separator="")
        return self

    def set_array_element_separator(self, separator: str) -> Self:
        """Set the separator between elements of array columns without their own.

        Args:
            separator: A string.

        Returns:
            This builder.
        """
        return self._set(array_separator=separator)

    def set_column_separator(self, char: str) -> Self:
        """Set the separator between columns.

        Args:
            char: One character; default: a comma.

        Returns:
            This builder.

        Raises:
            ValueError: Not one character.
        """
        return self._set(column_separator=_one_character("Column separator", char))

    def disable_escape_char(self) -> Self:
        """Use no escape character (the default)."""
        return self._set(escape=None)

    def set_escape_char(self, char: str) -> Self:
        """Set the escape character: the next character loses its meaning, or gains one (n, r, t, 0).

        Args:
            char: One character; default: none.

        Returns:
            This builder.

        Raises:
            ValueError: Not one character.
        """
        return self._set(escape=_one_character("Escape char", char))

    def set_line_separator(self, separator: str) -> Self:
        """Set the end of written lines; reading accepts LF, CR and CRLF.

        Args:
            separator: A string; default LF.

        Returns:
            This builder.
        """
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> Self:
        """Set the text that represents null.

        Args:
            null_value: A string; default: none.

        Returns:
            This builder.
        """
        return self._set(null_value=null_value)

    def disable_quote_char(self) -> Self:
        """Use no quotes."""
        return self._set(quote=None)

    def set_quote_char(self, char: str) -> Self:
        """Set the quote around values that contain special characters.

        Args:
            char: One character; default: a double quote.

        Returns:
            This builder.

        Raises:
            ValueError: Not one character.
        """
        return self._set(quote=_one_character("Quote char", char))

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Set whether the first line, or the line after the header, is skipped.

        Args:
            skip: A bool; the default of a schema is False.

        Returns:
            This builder.
        """
        return self._set(skip_first_data_row=skip)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """Set whether the header must list the columns' names in their order.

        Args:
            strict: A bool; the default of a schema is False.

        Returns:
            This builder.
        """
        return self._set(strict_headers=strict)

    def set_use_header(self, use: bool = True) -> Self:
        """Set whether the first line lists names.

        Args:
            use: A bool; the default of a schema is False.

        Returns:
            This builder.
        """
        return self._set(use_header=use)

    def size(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def _set(self, **settings: object) -> Self:
        self._settings = replace(self._settings, **settings)  # type: ignore[arg-type]
        return self


def _one_character(setting: str, char: str) -> str:
    if len(char) != 1:
        raise ValueError(f"{setting} must be a single char, got {char}")
    return char


Parse = Callable[[str], Any]
Write = Callable[[Any], str]

#: Longer texts are always in quotes.
_LONGEST_UNQUOTED = 24
_FIELD_LIMIT = 1 << 30
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_LARGEST = sys.float_info.max
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def parse_records(lines: Iterable[str], settings: CsvSettings, before: int = 0) -> Iterator[list[str]]:
    """Yield the fields of each record; `lines` have their line ends.

    `before` lines of the file have been read. An empty line is a record of one empty field; a comment is not
    a record. Raises ValueError for quotes in wrong places.
    """
    # the limit applies to the process; 128 KB per field would refuse files that Flink reads
    csv.field_size_limit(_FIELD_LIMIT)
    source = _Lines(lines, settings, before)
    reader = csv.reader(
        source,
        delimiter=settings.column_separator,
        quotechar=settings.quote,
        escapechar=settings.escape,
        quoting=csv.QUOTE_NONE if settings.quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
    while True:
        source.between_records = True
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"line {source.number}: {error}") from error
        yield record or [""]


class _Lines:
    """Lines for csv.reader: without comments or blanks after closing quotes, and with Jackson's escapes.

    Source: com.fasterxml.jackson.dataformat.csv.impl.CsvDecoder._nextQuotedString.
    """

    def __init__(self, lines: Iterable[str], settings: CsvSettings, before: int) -> None:
        self._lines = iter(lines)
        self._comments = settings.allow_comments
        self._escapes = None if settings.escape is None else re.compile(f"({re.escape(settings.escape)})(.)")
        self._quote, self._escape = settings.quote, settings.escape
        self._separator = settings.column_separator
        self._in_quotes = False
        self.between_records = True
        self.number = before

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        while self._comments and self.between_records and line.lstrip(" \t").startswith("#"):
            line = next(self._lines)
            self.number += 1
        self.between_records = False
        if self._quote is not None and (self._in_quotes or self._quote in line):
            line = self._without_blanks(line, self._quote)
        if self._escapes is not None:
            line = self._escapes.sub(lambda match: match[1] + _UNESCAPED.get(match[2], match[2]), line)
        return line

    def _without_blanks(self, line: str, quote: str) -> str:
        """Return the line without blanks between a closing quote and the next separator or line end."""
        parts, at = [], 0
        while at < len(line):
            if not self._in_quotes:
                opens = line[at] == quote
                end = at + 1 if opens else line.find(self._separator, at) + 1 or len(line)
                self._in_quotes = opens
                parts.append(line[at:end])
                at = end
                continue
            end, closed = self._end_of_quoted(line, at, quote)
            parts.append(line[at:end])
            at = end
            self._in_quotes = not closed
            if closed:
                rest = line[at:].lstrip(" \t".replace(self._separator, ""))
                if not rest or rest[0] in ("\r", "\n", self._separator):
                    at = len(line) - len(rest)
        return "".join(parts)

    def _end_of_quoted(self, line: str, at: int, quote: str) -> tuple[int, bool]:
        """Return the place after the closing quote, or the line's end, and whether there is such a quote."""
        while at < len(line):
            if line[at] == self._escape:
                at += 2
            elif line[at] != quote:
                at += 1
            elif line[at + 1 : at + 2] == quote:
                at += 2
            else:
                return at + 1, True
        return len(line), False


def parsers(schema: CsvSchema) -> list[Parse]:
    """Return the parser of each column's text; parsers raise ValueError. Raises TypeError for other types."""
    null = schema.settings.null_value
    return [_parser(column, schema.separator_of(column), null) for column in schema.columns]


def _parser(column: CsvColumn, separator: str, null: str | None) -> Parse:
    if isinstance(column.type_info, ObjectArrayTypeInfo):
        element = _nullable(parse_value(column.type_info._element_type), null)
        return lambda text: [element(part) for part in text.split(separator)] if text else []
    return _nullable(parse_value(column.type_info), null)


def _nullable(parse: Parse, null: str | None) -> Parse:
    return parse if null is None else (lambda text: None if text == null else parse(text))


def parse_value(type_info: TypeInformation) -> Parse:
    """Return the parser of a type's text; numbers and booleans may have spaces around.

    Raises TypeError for other types.
    """
    if isinstance(type_info, DecimalTypeInfo):
        fitted = type_info.fitted
        return lambda text: fitted(parse_decimal(text))
    parse = _PARSERS.get(type_info._basic_type) if isinstance(type_info, BasicTypeInfo) else None
    if parse is None:
        raise TypeError(f"CSV cannot represent values of {type_info!r}")
    return parse


def parse_decimal(text: str) -> Decimal:
    """Return a decimal number. Raises ValueError for other texts."""
    stripped = text.strip()
    try:
        value = Decimal(stripped)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a decimal number") from error
    if "_" in stripped or not value.is_finite():
        raise ValueError(f"{text!r} is not a decimal number")
    return value


def parse_double(text: str) -> float:
    """Return a number, read like Java's Double.valueOf but without hexadecimal forms.

    Raises ValueError for other texts.
    """
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if -_LARGEST <= number <= _LARGEST and "_" not in text:
            return number
    stripped = text.strip()
    if _DOUBLE.fullmatch(stripped) is None:
        raise ValueError(f"{text!r} is not a number")
    return float(stripped.rstrip("fFdD") if stripped[-1] in "fFdD" else stripped)


def _integer(bits: int) -> Parse:
    highest = 1 << (bits - 1)

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if "_" in text:
            raise ValueError(f"{text!r} is not a whole number")
        if not -highest <= number < highest:
            raise ValueError(f"{text!r} does not fit {bits} bits")
        return number

    return parse


_PARSERS: dict[BasicType, Parse] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: lambda text: text.strip().lower() == "true",
    **{integer_type: _integer(bits) for integer_type, bits in INTEGER_BITS.items()},
    BasicType.BIG_INT: lambda text: int(parse_decimal(text)),
    BasicType.FLOAT: lambda text: float(np.float32(parse_double(text))),
    BasicType.DOUBLE: parse_double,
    BasicType.BIG_DEC: parse_decimal,
}


def line_writer(schema: CsvSchema) -> Callable[[Iterable[Any]], str]:
    """Return a function from a row's values to its line with the line end.

    The function raises ValueError for another number of values. Raises TypeError for types that CSV cannot
    represent.
    """
    separator, end = schema.settings.column_separator, schema.settings.line_separator
    writers = [_writer(schema, column) for column in schema.columns]

    def line(values: Iterable[Any]) -> str:
        fields = [write(value) for write, value in zip(writers, values, strict=True)]
        return separator.join(fields) + end

    return line


def _writer(schema: CsvSchema, column: CsvColumn) -> Write:
    null, quoted = schema.settings.null_value or "", quoting(schema.settings)
    if not isinstance(column.type_info, ObjectArrayTypeInfo):
        is_text = column.type_info == BasicTypeInfo.STRING_TYPE_INFO()
        write = quoted if is_text else value_text(column.type_info)
        return lambda value: null if value is None else write(value)
    separator = schema.separator_of(column)
    if not separator:
        raise ValueError(f"column {column.name!r}: a separator between the elements of arrays is required")
    element = value_text(column.type_info._element_type)

    def joined(values: Any) -> str:
        if values is None:
            return null
        return quoted(separator.join([null if item is None else element(item) for item in values]))

    return joined


def quoting(settings: CsvSettings) -> Write:
    """Return a function that quotes texts like Jackson, if they are long or hold a special character."""
    quote, escape = settings.quote, settings.escape
    if quote is None:
        return str
    highest = max(settings.column_separator, quote, *settings.line_separator)
    search = re.compile(f"[\0-{re.escape(highest)}{re.escape(escape or chr(92))}]").search

    def quoted(text: str) -> str:
        if len(text) <= _LONGEST_UNQUOTED and search(text) is None:
            return text
        if escape is not None:
            text = text.replace(escape, escape + escape)
        return f"{quote}{text.replace(quote, quote + quote)}{quote}"

    return quoted


def value_text(type_info: TypeInformation) -> Write:
    """Return the function from a type's values to text. Raises TypeError for other types."""
    if isinstance(type_info, DecimalTypeInfo):
        fitted = type_info.fitted

        def decimal(value: Decimal) -> str:
            number = fitted(value)
            # as in Flink: without zeros at the end, and 100 as 1E+2
            return "" if number is None else f"{number.normalize()}"

        return decimal
    write = _TEXTS.get(type_info._basic_type) if isinstance(type_info, BasicTypeInfo) else None
    if write is None:
        raise TypeError(f"CSV cannot represent values of {type_info!r}")
    return write


_TEXTS: dict[BasicType, Write] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: java_boolean,
    **dict.fromkeys(INTEGER_BITS, str),
    BasicType.BIG_INT: str,
    BasicType.FLOAT: java_float,
    BasicType.DOUBLE: java_double,
    BasicType.BIG_DEC: str,
}
