"""Conversion between parsed JSON and typed values, as in Flink's JSON format.

Source: org.apache.flink.formats.json.{JsonRowDeserializationSchema,JsonRowSerializationSchema,TimeFormats}.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cached_property
from typing import Any, Self

import orjson

from penstock.operators.common.arrow_types import field_names, is_bytes
from penstock.operators.common.composite_codecs import INTEGER_BITS
from penstock.operators.common.row import create_row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from penstock.operators.formats.csv_rows import parse_value
from penstock.operators.formats.java_text import java_double, java_float, java_instant
from penstock.operators.formats.part_formats import DeserializationSchema, SerializationSchema

Convert = Callable[[Any], Any]

_LISTS = (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)
_WHOLE = frozenset({BasicType.INT, BasicType.LONG})
_RFC_TIME = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z")
_RFC_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


def from_json(
    type_info: TypeInformation, *, fail_on_missing: bool = False, ignore_errors: bool = False
) -> Convert:
    """Return a function from parsed JSON to values of a type; numbers and booleans may also be texts.

    The function raises ValueError for an invalid value, and for a missing field of a row if
    `fail_on_missing`. With `ignore_errors` it returns None in place of the invalid value. Raises TypeError
    for types without a JSON form.
    """
    convert = _from_json(type_info, fail_on_missing, ignore_errors)
    if not ignore_errors:
        return lambda node: None if node is None else convert(node)

    def lenient(node: Any) -> Any:
        try:
            return None if node is None else convert(node)
        except (ValueError, TypeError, KeyError):
            return None

    return lenient


def needs_decimals(type_info: TypeInformation) -> bool:
    """Whether numbers with a point must be read as decimals."""
    return BasicType.BIG_DEC in _basic_types(type_info)


def parse_json(text: bytes | str, decimals: bool) -> Any:
    """Return the parsed text. Raises ValueError if it is not JSON."""
    return json.loads(text, parse_float=Decimal) if decimals else orjson.loads(text)


def to_json(type_info: TypeInformation | None, *, java_numbers: bool = True) -> Convert:
    """Return a function from values to objects that orjson writes as Flink does.

    Without a type, values are unchanged. Without `java_numbers`, orjson writes floats, which is several times
    faster: `1e16` for Java's `1.0E16`, and null for Java's "NaN". Raises TypeError for types without a JSON
    form.
    """
    convert = None if type_info is None else _to_json(type_info, java_numbers)
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _from_json(type_info: TypeInformation, fail_on_missing: bool, ignore_errors: bool) -> Convert:
    def nested(part_type: TypeInformation) -> Convert:
        return from_json(part_type, fail_on_missing=fail_on_missing, ignore_errors=ignore_errors)

    if isinstance(type_info, RowTypeInfo):
        return _row(
            type_info, [nested(field_type) for field_type in type_info.get_field_types()], fail_on_missing
        )
    if isinstance(type_info, MapTypeInfo):
        key, item = nested(type_info._key_type_info), nested(type_info._value_type_info)
        return lambda node: {key(name): item(value) for name, value in _require_json(node, dict).items()}
    if isinstance(type_info, _LISTS):
        if is_bytes(type_info):
            return lambda node: base64.b64decode(_require_json(node, str), validate=True)
        element = nested(_element(type_info))
        return lambda node: [element(part) for part in _require_json(node, list)]
    if isinstance(type_info, BasicTypeInfo):
        return _single(type_info)
    return _times(type_info)


def _row(type_info: RowTypeInfo, fields: list[Convert], fail_on_missing: bool) -> Convert:
    names = type_info.get_field_names()
    pairs = list(zip(names, fields, strict=True))

    def convert(node: Any) -> Any:
        members = _require_json(node, dict)
        if fail_on_missing:
            missing = [name for name in names if name not in members]
            if missing:
                raise ValueError(f"could not find field with name {missing[0]!r}")
        return create_row(names, [field(members.get(name)) for name, field in pairs])

    return convert


def _single(type_info: BasicTypeInfo) -> Convert:
    kind = type_info._basic_type
    if kind is BasicType.STRING:
        return lambda node: node if isinstance(node, str) else _text(node)
    if kind is BasicType.INSTANT:
        return _instant
    parse = parse_value(type_info)
    bits = INTEGER_BITS.get(kind)
    highest = 0 if bits is None else 1 << (bits - 1)

    def convert(node: Any) -> Any:
        node_type = type(node)
        if node_type is int and -highest <= node < highest:
            return node
        if node_type is float and kind is BasicType.DOUBLE:
            return node
        if node_type is float and kind in _WHOLE:
            node = int(node)
        return parse(node if isinstance(node, str) else _text(node))

    return convert


def _text(node: Any) -> str:
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, float):
        return java_double(node)
    if isinstance(node, (dict, list)):
        return orjson.dumps(node, default=str).decode()
    return str(node)


def _require_json(node: Any, kind: type) -> Any:
    if not isinstance(node, kind):
        raise ValueError(f"must be {_JSON_NAMES[kind]}, got {_text(node)}")
    return node


_JSON_NAMES: dict[type, str] = {dict: "an object", list: "an array", str: "a string"}


def _element(type_info: Any) -> TypeInformation:
    element: TypeInformation = getattr(type_info, "elem_type", None) or type_info._element_type
    return element


def _instant(node: Any) -> Instant:
    match = _RFC_TIMESTAMP.fullmatch(_text(node))
    if match is None:
        raise ValueError(f"{node!r} is not an instant like 2024-01-02T03:04:05.678Z")
    moment = datetime.datetime.fromisoformat(match[1] + "+00:00")
    return Instant(int(moment.timestamp()), int((match[2] or "0").ljust(9, "0")))


def _timestamp(node: Any) -> datetime.datetime:
    match = _RFC_TIMESTAMP.fullmatch(_text(node))
    if match is None:
        raise ValueError(f"{node!r} is not a timestamp like 2024-01-02T03:04:05.678Z")
    micros = int((match[2] or "0").ljust(9, "0")[:6])
    return datetime.datetime.fromisoformat(match[1]).replace(microsecond=micros)


def _time(node: Any) -> datetime.time:
    match = _RFC_TIME.fullmatch(_text(node))
    if match is None:
        raise ValueError(f"{node!r} is not a time like 03:04:05Z")
    return datetime.time.fromisoformat(match[1][:15])


def _times(type_info: TypeInformation) -> Convert:
    if isinstance(type_info, DateTypeInfo):
        return lambda node: datetime.date.fromisoformat(_require_json(node, str))
    if isinstance(type_info, TimeTypeInfo):
        return _time
    if isinstance(type_info, TimestampTypeInfo):
        return _timestamp
    if isinstance(type_info, LocalTimeTypeInfo):
        kind = _LOCAL[type_info._time_type]
        return lambda node: kind.fromisoformat(_require_json(node, str))
    raise TypeError(f"JSON cannot represent values of {type_info!r}")


_LOCAL: dict[LocalTimeTypeInfo.TimeType, Any] = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: datetime.date,
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: datetime.time,
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: datetime.datetime,
}


def _to_json(type_info: TypeInformation, java_numbers: bool) -> Convert | None:
    """Return a function that converts values other than None; None if orjson takes them unchanged."""
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return _object(type_info, java_numbers)
    if isinstance(type_info, MapTypeInfo):
        item = to_json(type_info._value_type_info, java_numbers=java_numbers)
        return lambda entries: {_text(key): item(value) for key, value in entries.items()}
    if isinstance(type_info, _LISTS):
        if is_bytes(type_info):
            return lambda value: base64.b64encode(value).decode()
        element = to_json(_element(type_info), java_numbers=java_numbers)
        return lambda values: [element(value) for value in values]
    if isinstance(type_info, BasicTypeInfo):
        kind = type_info._basic_type
        is_float = kind in (BasicType.FLOAT, BasicType.DOUBLE)
        return None if is_float and not java_numbers else _BASIC.get(kind)
    for kind_of_time, text in _TIME_TEXTS.items():
        if isinstance(type_info, kind_of_time):
            return text
    raise TypeError(f"JSON cannot represent values of {type_info!r}")


def _object(type_info: RowTypeInfo | TupleTypeInfo, java_numbers: bool) -> Convert:
    names = field_names(type_info)
    converts = [_to_json(field_type, java_numbers) for field_type in type_info.get_field_types()]
    needed = [(place, convert) for place, convert in enumerate(converts) if convert is not None]

    def convert_row(row: Any) -> dict[str, Any]:
        values = list(row)
        for place, convert in needed:
            if values[place] is not None:
                values[place] = convert(values[place])
        return dict(zip(names, values, strict=True))

    return convert_row


def _number(text: Callable[[Any], str]) -> Convert:
    def convert(value: Any) -> Any:
        written = text(value)
        # Jackson puts values that are not JSON numbers in quotes
        return orjson.Fragment(written.encode()) if written[-1].isdigit() else written

    return convert


_BASIC: dict[BasicType, Convert] = {
    BasicType.DOUBLE: _number(java_double),
    BasicType.FLOAT: _number(java_float),
    BasicType.BIG_DEC: _number(str),
    BasicType.BIG_INT: _number(str),
    BasicType.INSTANT: java_instant,
}


def _fraction(value: Any) -> str:
    return f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""


_TIME_TEXTS: dict[type, Convert] = {
    DateTypeInfo: lambda value: value.isoformat(),
    TimeTypeInfo: lambda value: f"{value:%H:%M:%S}{_fraction(value)}Z",
    TimestampTypeInfo: lambda value: f"{value:%Y-%m-%dT%H:%M:%S}{_fraction(value)}Z",
    LocalTimeTypeInfo: lambda value: value.isoformat(),
}


def _basic_types(type_info: TypeInformation) -> set[BasicType]:
    if isinstance(type_info, BasicTypeInfo):
        return {type_info._basic_type}
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return {kind for field_type in type_info.get_field_types() for kind in _basic_types(field_type)}
    if isinstance(type_info, MapTypeInfo):
        return _basic_types(type_info._value_type_info)
    if isinstance(type_info, _LISTS):
        return _basic_types(_element(type_info))
    return set()


# Conversion between rows and JSON messages, and types of JSON Schemas
#
# Source: pyflink.datastream.formats.json, org.apache.flink.formats.json.{JsonRowDeserializationSchema,
# JsonRowSerializationSchema, JsonRowSchemaConverter}.


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a Row from a JSON object. Create it with `builder`."""

    def __init__(self, j_deserialization_schema: Any, **settings: bool) -> None:
        typed = isinstance(j_deserialization_schema, TypeInformation)
        super().__init__(None if typed else j_deserialization_schema)
        self.type_info: TypeInformation = j_deserialization_schema
        self._ignore_errors = settings.get("ignore_errors", False)
        self._decimals = needs_decimals(self.type_info)
        self._settings = settings
        _ = self._convert  # raises TypeError here instead of in the subtasks

    @cached_property
    def _convert(self) -> Convert:
        return from_json(self.type_info, **self._settings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}

    def deserialize(self, message: bytes) -> Any:
        """Convert a JSON object to a row.

        Args:
            message: JSON text in UTF-8.

        Returns:
            Row: The declared fields; None for `null`, and for invalid values if errors are ignored.

        Raises:
            ValueError: An invalid message, unless errors are ignored.
        """
        try:
            return self._convert(parse_json(message, self._decimals))
        except ValueError as error:
            if self._ignore_errors:
                return None
            raise ValueError(f"failed to deserialize JSON {message!r}: {error}") from error

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder without a type."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Builds a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> Self:
            """Set the type of the rows.

            Args:
                type_info: A row type, whose field names are the keys of the objects.

            Returns:
                This builder.
            """
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> Self:
            """Set the type of the rows by a JSON Schema: objects become rows, numbers decimals.

            Args:
                json_schema: The JSON text of the schema.

            Returns:
                This builder.

            Raises:
                TypeError: None.
                ValueError: A schema without a type, or with a union other than with null.
            """
            if json_schema is None:
                raise TypeError("The json_schema must not be None.")
            self._type_info = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> Self:
            """Treat a missing field as an error instead of null."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> Self:
            """Turn fields that cannot be parsed into null."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises TypeError without a type, ValueError if errors are both raised and ignored.
            """
            if self._type_info is None:
                raise TypeError("a type is required: type_info or json_schema")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError("fail_on_missing_field and ignore_parse_errors cannot be combined")
            return JsonRowDeserializationSchema(
                self._type_info,
                fail_on_missing=self._fail_on_missing_field,
                ignore_errors=self._ignore_parse_errors,
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Writes a Row as a JSON object. Create it with `builder`."""

    def __init__(self, j_serialization_schema: Any) -> None:
        typed = isinstance(j_serialization_schema, TypeInformation)
        super().__init__(None if typed else j_serialization_schema)
        self.type_info: TypeInformation = j_serialization_schema
        _ = self._convert  # raises TypeError here instead of in the subtasks

    @cached_property
    def _convert(self) -> Convert:
        return to_json(self.type_info)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}

    def serialize(self, element: Any) -> bytes:
        """Convert a row to a JSON object.

        Args:
            element: A Row or tuple of the declared type.

        Returns:
            bytes: JSON text in UTF-8.
        """
        return orjson.dumps(self._convert(element))

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder without a type."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> Self:
            """Set the type of the rows.

            Args:
                type_info: A row type, whose field names become the keys of the objects.

            Returns:
                This builder.
            """
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema. Raises TypeError without a type."""
            if self._type_info is None:
                raise TypeError("Typeinfo should be set.")
            return JsonRowSerializationSchema(self._type_info)


def type_of_json_schema(json_schema: str) -> TypeInformation:
    """Return the type that a JSON Schema describes, with rows for objects and decimals for all numbers.

    `["null", T]` and `oneOf` of null and T are T, as every value may be null; `$ref` refers to a place in the
    schema itself. Raises ValueError for schemas without a type: other unions, null alone, a missing type.
    """
    root = json.loads(json_schema)
    return _type_of(root, root, ())


def _type_of(node: Any, root: Any, seen: tuple[str, ...]) -> TypeInformation:
    if "$ref" in node:
        return _referred(node["$ref"], root, seen)
    kinds = node.get("type", node.get("oneOf"))
    if isinstance(kinds, list):
        alternatives = [
            kind for kind in kinds if kind != "null" and (isinstance(kind, str) or kind.get("type") != "null")
        ]
        if len(alternatives) != 1 or len(kinds) > 2:
            raise ValueError("union types with more than just a null type are not supported")
        return _type_of(
            {**node, "type": alternatives[0]} if isinstance(alternatives[0], str) else alternatives[0],
            root,
            seen,
        )
    if kinds == "object":
        fields = node.get("properties", {})
        return Types.ROW_NAMED(list(fields), [_type_of(field, root, seen) for field in fields.values()])
    if kinds == "array":
        return _array(node.get("items"), root, seen)
    if kinds == "string":
        if node.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        formats = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}
        return formats.get(node.get("format"), Types.STRING)()
    if kinds in ("number", "integer"):
        return Types.BIG_DEC()
    if kinds == "boolean":
        return Types.BOOLEAN()
    raise ValueError(f"the JSON Schema {json.dumps(node)} has no type")


def _array(items: Any, root: Any, seen: tuple[str, ...]) -> TypeInformation:
    if isinstance(items, list):
        types = [_type_of(item, root, seen) for item in items]
        return RowTypeInfo(types, [f"f{place}" for place in range(len(types))])
    if not isinstance(items, dict):
        raise ValueError("items are required for an array in a JSON Schema")
    element = _type_of(items, root, seen)
    array: TypeInformation = Types.OBJECT_ARRAY(element)
    return Types.BASIC_ARRAY(element) if element == Types.STRING() else array


def _referred(path: str, root: Any, seen: tuple[str, ...]) -> TypeInformation:
    if not path.startswith("#") or path in seen:
        raise ValueError(f"$ref must be a place in the schema itself, not around the reference, got {path!r}")
    node = root
    for step in filter(None, path[1:].split("/")):
        node = node[step]
    return _type_of(node, root, (*seen, path))
