"""Rows as JSON messages and back, and types of JSON Schemas.

Source: pyflink.datastream.formats.json,
org.apache.flink.formats.json.{JsonRowDeserializationSchema,JsonRowSerializationSchema,JsonRowSchemaConverter}.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Self

import orjson

from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.operators.formats.json_values import Convert, from_json, needs_decimals, parse_json, to_json
from penstock.operators.formats.serialization import DeserializationSchema, SerializationSchema


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes a Row from a JSON object. Made with `builder`."""

    def __init__(self, j_deserialization_schema: Any, **settings: bool) -> None:
        typed = isinstance(j_deserialization_schema, TypeInformation)
        super().__init__(None if typed else j_deserialization_schema)
        self.type_info: TypeInformation = j_deserialization_schema
        self._ignore_errors = settings.get("ignore_errors", False)
        self._decimals = needs_decimals(self.type_info)
        self._settings = settings
        _ = self._convert  # TypeError now, not in the subtasks

    @cached_property
    def _convert(self) -> Convert:
        return from_json(self.type_info, **self._settings)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}

    def deserialize(self, message: bytes) -> Any:
        """The row; None for `null`, and for what is wrong if errors are ignored. Else ValueError."""
        try:
            return self._convert(parse_json(message, self._decimals))
        except ValueError as error:
            if self._ignore_errors:
                return None
            raise ValueError(f"failed to deserialize JSON {message!r}: {error}") from error

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """A builder without a type."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Builds a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> Self:
            """Type of the rows; its field names are looked up in the objects."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> Self:
            """The type that a JSON Schema describes; see `type_of_json_schema`. TypeError for None."""
            if json_schema is None:
                raise TypeError("The json_schema must not be None.")
            self._type_info = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> Self:
            """A field that is not there is an error, and not null."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> Self:
            """Turn fields that cannot be parsed into null."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """The schema. TypeError without a type, ValueError if errors are both raised and ignored."""
            if self._type_info is None:
                raise TypeError("a type is needed: type_info or json_schema")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError("fail_on_missing_field and ignore_parse_errors do not go together")
            return JsonRowDeserializationSchema(
                self._type_info,
                fail_on_missing=self._fail_on_missing_field,
                ignore_errors=self._ignore_parse_errors,
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Makes a JSON object from a Row. Made with `builder`."""

    def __init__(self, j_serialization_schema: Any) -> None:
        typed = isinstance(j_serialization_schema, TypeInformation)
        super().__init__(None if typed else j_serialization_schema)
        self.type_info: TypeInformation = j_serialization_schema
        _ = self._convert  # TypeError now, not in the subtasks

    @cached_property
    def _convert(self) -> Convert:
        return to_json(self.type_info)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}

    def serialize(self, element: Any) -> bytes:
        """The object, in UTF-8."""
        return orjson.dumps(self._convert(element))

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """A builder without a type."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> Self:
            """Type of the rows; its field names are the objects'."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """The schema. TypeError without a type."""
            if self._type_info is None:
                raise TypeError("Typeinfo should be set.")
            return JsonRowSerializationSchema(self._type_info)


def type_of_json_schema(json_schema: str) -> TypeInformation:
    """The type of what a JSON Schema describes: objects are rows, all numbers decimals.

    `["null", T]` and `oneOf` of null and T are T, as everything may be null; `$ref` leads to a place in the
    schema itself. ValueError for what has no type: other unions, null alone, a schema without a type.
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
    raise ValueError(f"no type for the JSON Schema {json.dumps(node)}")


def _array(items: Any, root: Any, seen: tuple[str, ...]) -> TypeInformation:
    if isinstance(items, list):
        types = [_type_of(item, root, seen) for item in items]
        return RowTypeInfo(types, [f"f{place}" for place in range(len(types))])
    if not isinstance(items, dict):
        raise ValueError("an array in a JSON Schema needs items")
    element = _type_of(items, root, seen)
    array: TypeInformation = Types.OBJECT_ARRAY(element)
    return Types.BASIC_ARRAY(element) if element == Types.STRING() else array


def _referred(path: str, root: Any, seen: tuple[str, ...]) -> TypeInformation:
    if not path.startswith("#") or path in seen:
        raise ValueError(f"$ref {path!r}: only places in the schema itself, and none within itself")
    node = root
    for step in filter(None, path[1:].split("/")):
        node = node[step]
    return _type_of(node, root, (*seen, path))
