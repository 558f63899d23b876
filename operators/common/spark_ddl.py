"""Parse Spark's types as text, such as `a int, b array<string>`, without a session.

Source: org.apache.spark.sql.types.DataType.fromDDL, which parses a list of columns, else one type. Here,
`timestamp` has a time zone whatever the value of `spark.sql.timestampType`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

#: Text between tokens: space, and SQL's comments.
_SPACE = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"""(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"""|(?P<word>\w+)|(?P<mark>[<>(),:]))""",
    re.DOTALL,
)
_SINGLE: dict[str, Callable[[], DataType]] = {
    "boolean": BooleanType,
    "tinyint": ByteType,
    "byte": ByteType,
    "smallint": ShortType,
    "short": ShortType,
    "int": IntegerType,
    "integer": IntegerType,
    "bigint": LongType,
    "long": LongType,
    "float": FloatType,
    "real": FloatType,
    "double": DoubleType,
    "date": DateType,
    "timestamp_ntz": TimestampNTZType,
    "timestamp_ltz": TimestampType,
    "binary": BinaryType,
    "void": NullType,
    "variant": VariantType,
}
_MONTHS = {"year": YearMonthIntervalType.YEAR, "month": YearMonthIntervalType.MONTH}
_SECONDS = {
    "day": DayTimeIntervalType.DAY,
    "hour": DayTimeIntervalType.HOUR,
    "minute": DayTimeIntervalType.MINUTE,
    "second": DayTimeIntervalType.SECOND,
}
_MOST_DIGITS = 38
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)|(['\"])\2", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def parse_spark_type(text: str) -> DataType:
    """Return the type that `text` names; a list of columns is a struct.

    Raises ValueError that names the part which cannot be read.
    """
    tokens = _tokens(text)
    try:
        return _columns_or_type(text, tokens)
    except _SyntaxError as error:
        raise ValueError(f"Spark type {text!r:.200}: {error}") from None
    except RecursionError:
        raise ValueError(f"Spark type {text!r:.200}: it is nested too deeply") from None


def _columns_or_type(text: str, tokens: list[_Token]) -> DataType:
    try:
        return _whole(_Tokens(text, tokens), _columns)
    except _SyntaxError as columns_error:
        try:
            return _whole(_Tokens(text, tokens), _type)
        except _SyntaxError as type_error:
            # one word alone is a type, although it could be the name of a column
            raise (
                type_error if type_error.at > columns_error.at or len(tokens) < 2 else columns_error
            ) from None


class _SyntaxError(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class _Token(NamedTuple):
    kind: str
    text: str


class _Tokens:
    def __init__(self, whole: str, tokens: list[_Token]) -> None:
        self._whole, self._tokens, self._at = whole, tokens, 0

    def next_is(self, *texts: str) -> bool:
        """Whether these words or marks come next, in any case."""
        next_tokens = self._tokens[self._at : self._at + len(texts)]
        return [token.text.lower() for token in next_tokens if token.kind in ("word", "mark")] == list(texts)

    def take(self, *texts: str) -> bool:
        """Skip these tokens if they come next; return whether they did."""
        if not self.next_is(*texts):
            return False
        self._at += len(texts)
        return True

    def require(self, text: str) -> None:
        """Skip `text`, which must come next."""
        if not self.take(text):
            self.fail(f"{text!r} is missing")

    def take_kind(self, *kinds: str) -> str | None:
        """Return the next token, and skip it, if it has one of these kinds; else None."""
        if self._at < len(self._tokens) and self._tokens[self._at].kind in kinds:
            self._at += 1
            return self._tokens[self._at - 1].text
        return None

    def number(self) -> int:
        """Return the number that must come next."""
        text = self.take_kind("word")
        if text is None or not (text.isascii() and text.isdecimal()):
            self.fail("a number is missing")
        return int(text)

    def ended(self) -> bool:
        return self._at == len(self._tokens)

    def fail(self, message: str) -> NoReturn:
        """Raise the error with the current position."""
        rest = "at its end" if self.ended() else f"before {self._tokens[self._at].text!r}"
        raise _SyntaxError(f"{message} {rest}", self._at)

    def refuse(self, message: str) -> NoReturn:
        """Raise the error about the token before the current position."""
        raise _SyntaxError(message, self._at)


def _tokens(text: str) -> list[_Token]:
    tokens, at = list[_Token](), _after_space(text, 0)
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"Spark type {text!r:.200}: {text[at]!r} cannot be read")
        tokens.append(_Token(str(token.lastgroup), token[str(token.lastgroup)]))
        at = _after_space(text, token.end())
    return tokens


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _whole(tokens: _Tokens, read: Callable[[_Tokens], DataType]) -> DataType:
    data_type = read(tokens)
    if not tokens.ended():
        tokens.fail("a comma is missing")
    return data_type


def _columns(tokens: _Tokens) -> StructType:
    fields = [_column(tokens)]
    while tokens.take(","):
        fields.append(_column(tokens))
    return StructType(fields)


def _column(tokens: _Tokens) -> StructField:
    name = tokens.take_kind("word", "quoted")
    if name is None:
        tokens.fail("the name of a column is missing")
    if name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    tokens.take(":")
    data_type = _type(tokens)
    nullable = not tokens.take("not", "null")
    if not tokens.take("comment"):
        return StructField(name, data_type, nullable)
    comment = tokens.take_kind("text")
    if comment is None:
        tokens.fail("the text of a comment is missing")
    parts = [comment, *iter(lambda: tokens.take_kind("text"), None)]
    return StructField(name, data_type, nullable, {"comment": "".join(map(_unescaped, parts))})


def _unescaped(quoted: str) -> str:
    # Source: org.apache.spark.sql.catalyst.util.SparkParserUtils.unescapeSQLString
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code is None:
            return match[2]
        if code[0] in "uU" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, quoted[1:-1])


def _type(tokens: _Tokens) -> DataType:
    if tokens.ended():
        tokens.fail("a type is missing")
    name = (tokens.take_kind("word") or "").lower()
    if name in _SINGLE:
        return _SINGLE[name]()
    if name in _READERS:
        return _READERS[name](tokens)
    if name:
        tokens.refuse(f"{name!r} is not a type of Spark")
    tokens.fail("a type is missing")


def _array(tokens: _Tokens) -> DataType:
    tokens.require("<")
    element = _type(tokens)
    tokens.require(">")
    return ArrayType(element)


def _map(tokens: _Tokens) -> DataType:
    tokens.require("<")
    key = _type(tokens)
    tokens.require(",")
    value = _type(tokens)
    tokens.require(">")
    return MapType(key, value)


def _struct(tokens: _Tokens) -> DataType:
    tokens.require("<")
    fields = StructType([]) if tokens.next_is(">") else _columns(tokens)
    tokens.require(">")
    return fields


def _decimal(tokens: _Tokens) -> DataType:
    if not tokens.take("("):
        return DecimalType(10, 0)
    precision = tokens.number()
    scale = tokens.number() if tokens.take(",") else 0
    tokens.require(")")
    if not 1 <= precision <= _MOST_DIGITS or scale > precision:
        tokens.refuse(f"decimal({precision},{scale}) is not a decimal of Spark")
    return DecimalType(precision, scale)


def _string(tokens: _Tokens) -> DataType:
    if not tokens.take("collate"):
        return StringType()
    collation = tokens.take_kind("word", "quoted")
    if collation is None:
        tokens.fail("the name of a collation is missing")
    return StringType(collation.strip("`").upper())


def _sized(kind: Callable[[int], DataType]) -> Callable[[_Tokens], DataType]:
    def read(tokens: _Tokens) -> DataType:
        tokens.require("(")
        length = tokens.number()
        tokens.require(")")
        return kind(length)

    return read


def _with_spatial_reference(kind: Callable[[Any], DataType]) -> Callable[[_Tokens], DataType]:
    def read(tokens: _Tokens) -> DataType:
        tokens.require("(")
        srid = "ANY" if tokens.take("any") else tokens.number()
        tokens.require(")")
        try:
            return kind(srid)
        except PySparkException:
            tokens.refuse(f"{srid} is not a spatial reference that Spark knows")

    return read


def _time(tokens: _Tokens) -> DataType:
    precision = 6
    if tokens.take("("):
        precision = tokens.number()
        tokens.require(")")
    tokens.take("without", "time", "zone")
    if precision > 6:
        tokens.refuse(f"time({precision}) has more than 6 digits")
    return TimeType(precision)


def _timestamp(tokens: _Tokens) -> DataType:
    if tokens.take("without", "time", "zone"):
        return TimestampNTZType()
    tokens.take("with", "local", "time", "zone")
    return TimestampType()


def _interval(tokens: _Tokens) -> DataType:
    for units, kind in ((_MONTHS, YearMonthIntervalType), (_SECONDS, DayTimeIntervalType)):
        for unit, start in units.items():
            if tokens.take(unit):
                end = start
                if tokens.take("to"):
                    last = (tokens.take_kind("word") or "").lower()
                    if units.get(last, start) <= start:
                        tokens.refuse(f"an interval from {unit} to {last!r} is not a type of Spark")
                    end = units[last]
                made: DataType = kind(start, end)
                return made
    return CalendarIntervalType()


_READERS: dict[str, Callable[[_Tokens], DataType]] = {
    "array": _array,
    "map": _map,
    "struct": _struct,
    "decimal": _decimal,
    "dec": _decimal,
    "numeric": _decimal,
    "string": _string,
    "char": _sized(CharType),
    "character": _sized(CharType),
    "varchar": _sized(VarcharType),
    "time": _time,
    "timestamp": _timestamp,
    "interval": _interval,
    "geometry": _with_spatial_reference(GeometryType),
    "geography": _with_spatial_reference(GeographyType),
}
