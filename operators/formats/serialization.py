"""Schemas between records and bytes, encoders of lines, factories of part files.

Source: pyflink.common.serialization and org.apache.flink.api.common.serialization. PyFlink's classes hand out
Java objects; these do the work themselves: `serialize` and `deserialize` are beyond PyFlink's API.
"""

from __future__ import annotations

from typing import Any

from penstock.operators.common.no_java import NoJavaError
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.files.lines import python_charset
from penstock.operators.formats.part_formats import PartFormat, TextLines

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowDataBulkWriterFactory",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema:
    """Makes bytes from a record."""

    def __init__(self, j_serialization_schema: Any = None) -> None:
        _refuse_java(type(self).__name__, j_serialization_schema)

    def serialize(self, element: Any) -> bytes:
        """The bytes of one record. Penstock's own."""
        raise NotImplementedError


class DeserializationSchema:
    """Makes a record from bytes."""

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        _refuse_java(type(self).__name__, j_deserialization_schema)

    def deserialize(self, message: bytes) -> Any:
        """The record of one message. Penstock's own."""
        raise NotImplementedError


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings in a charset. LookupError for one that Python does not know."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = python_charset(charset)

    def serialize(self, element: str) -> bytes:
        """The string's bytes; `?` for what the charset lacks."""
        return element.encode(self.charset, "replace")

    def deserialize(self, message: bytes) -> str:
        """The string; U+FFFD for malformed bytes."""
        return message.decode(self.charset, "replace")


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def __init__(self) -> None:
        super().__init__()

    def serialize(self, element: bytes) -> bytes:
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which must be bytes. ValueError for a negative index."""

    def __init__(self, field_index: int) -> None:
        super().__init__()
        if field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index}")
        self.field_index = field_index

    def serialize(self, element: Any) -> bytes:
        """The field; nothing for None. TypeError if it is no bytes, IndexError if there is none."""
        if element is None or element[self.field_index] is None:
            return b""
        field = element[self.field_index]
        if not isinstance(field, (bytes, bytearray)):
            raise TypeError(f"field {self.field_index} is {type(field).__name__}, not bytes")
        return bytes(field)


class Encoder:
    """Writes the records of a file sink one after the other."""

    def __init__(self, j_encoder: Any) -> None:
        if not isinstance(j_encoder, PartFormat):
            _refuse_java("Encoder", j_encoder)
        self.part_format: PartFormat = j_encoder

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """One line per record, as Java's toString has it. LookupError: a charset unknown to Python."""
        return Encoder(TextLines(python_charset(charset_name)))


class BulkWriterFactory:
    """Makes writers of whole files."""

    def __init__(self, j_bulk_writer_factory: Any) -> None:
        if not isinstance(j_bulk_writer_factory, PartFormat):
            _refuse_java(type(self).__name__, j_bulk_writer_factory)
        self.part_format: PartFormat = j_bulk_writer_factory


class RowDataBulkWriterFactory(BulkWriterFactory):
    """Makes writers of files of rows."""

    def __init__(self, j_bulk_writer_factory: Any, row_type: TypeInformation) -> None:
        super().__init__(j_bulk_writer_factory)
        self._row_type = row_type

    def get_row_type(self) -> TypeInformation:
        """Type of the rows: a RowTypeInfo."""
        return self._row_type


def _refuse_java(name: str, java: Any) -> None:
    if java is not None:
        raise NoJavaError(f"{name} of a Java class: Penstock runs without Flink's JVM")
