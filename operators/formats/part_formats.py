"""Formats of part files, which write records into a stream.

Source: org.apache.flink.api.common.serialization.{Encoder,BulkWriter} for the two sorts of formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pyarrow.types as kinds

from penstock.operators.chain.operator import Values
from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.arrow_columns import to_arrow
from penstock.operators.common.arrow_types import arrow_type, element_type, is_bytes
from penstock.operators.common.basic_types import ForeignTypeInfo
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.files.lines import python_charset
from penstock.operators.formats.java_text import java_text, java_text_of_any

# Columns in the form of other systems' tables: decimals and timestamps instead of texts and structs
#
# `operators.common` encodes BIG_INT and BIG_DEC as text and INSTANT as a struct, which no other system would
# understand; in Parquet and Delta they are decimal(38, 0), decimal(38, 18) (PyFlink's DataTypes of these
# types) and timestamps of microseconds in UTC. `as_arrow_type` converts them back.


_STORED = {
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
    BasicType.INSTANT: pa.timestamp("us", "UTC"),
}
_LISTS = (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)


def stored_schema(type_info: TypeInformation | None) -> pa.Schema:
    """Return one column per field of a row or tuple type, else the only column `value`.

    Raises TypeError for records without a declared type, also inside a declared one.
    """
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.schema(list(stored_type(type_info)))
    return pa.schema([("value", stored_type(type_info))])


def stored_type(type_info: TypeInformation | None) -> pa.DataType:
    """Return the Arrow type of a stored column of such values. Raises TypeError if there is none."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        raise TypeError(
            "records without a declared type have no columns: declare the output type before the sink"
        )
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _STORED:
        return _STORED[type_info._basic_type]
    if isinstance(type_info, ForeignTypeInfo):
        stored: pa.DataType = type_info.stored_type
        return stored
    carried = arrow_type(type_info)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        fields = zip([field.name for field in carried], type_info.get_field_types(), strict=True)
        return pa.struct([(name, stored_type(field_type)) for name, field_type in fields])
    if isinstance(type_info, _LISTS) and not is_bytes(type_info):
        return pa.list_(stored_type(element_type(type_info)))
    if isinstance(type_info, MapTypeInfo):
        return pa.map_(stored_type(type_info._key_type_info), stored_type(type_info._value_type_info))
    return carried


def stored_values(values: list[Any], type_info: TypeInformation, schema: pa.Schema) -> pa.RecordBatch:
    """Return values of a type as a batch of `schema`, which is `stored_schema` of the type."""
    column = to_arrow(values, type_info)
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_arrays([as_stored(column, schema.field(0).type)], schema=schema)
    if column.null_count:
        raise TypeError("a row that is null has no columns")
    return stored_batch(pa.RecordBatch.from_struct_array(column), schema)


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`, matched by position, in its types."""
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns < len(schema):
        raise TypeError(f"the columns must be {schema.names} as declared, got {batch.schema.names}")
    columns = [as_stored(batch.column(at), field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def as_stored(column: pa.Array, stored: pa.DataType) -> pa.Array:
    """Return `column` as an array of type `stored`. Raises ArrowInvalid for values that do not fit."""
    if column.type == stored:
        return column
    mask = column.is_null() if column.null_count else None
    if kinds.is_timestamp(stored) and kinds.is_struct(column.type):
        micros = pc.add(pc.multiply(column.field(0), 1_000_000), pc.divide(column.field(1), 1000))
        return pc.if_else(column.is_valid(), micros, None).cast(pa.int64()).cast(stored)
    if kinds.is_struct(stored):
        fields = [as_stored(column.field(at), field.type) for at, field in enumerate(stored)]
        return pa.StructArray.from_arrays(fields, fields=list(stored), mask=mask)
    if kinds.is_list(stored) and kinds.is_list(column.type):
        values = as_stored(column.values, stored.value_type)
        return pa.ListArray.from_arrays(_offsets(column), values, type=stored, mask=mask)
    if kinds.is_map(stored):
        keys, items = as_stored(column.keys, stored.key_type), as_stored(column.items, stored.item_type)
        return pa.MapArray.from_arrays(_offsets(column), keys, items, type=stored, mask=mask)
    if kinds.is_decimal(stored) and kinds.is_string(column.type):
        _require_that_fit(column, stored)
    return as_arrow_type(column, stored)


def _require_that_fit(texts: pa.StringArray, stored: pa.Decimal128Type) -> None:
    # Arrow's cast of texts does not detect every overflow
    largest = pc.max(pc.abs(pc.cast(texts, pa.float64()))).as_py()
    if largest is not None and largest > 10.0 ** (stored.precision - stored.scale):
        raise pa.ArrowInvalid(f"a number of the size of {largest:g} does not fit {stored}")


def _offsets(column: pa.Array) -> pa.Array:
    # a copy: Arrow does not accept a slice of offsets together with a mask
    return pa.array(column.offsets.to_numpy(), pa.int32())


class PartWriter(ABC):
    """Writes the records of one part file; its creator closes the stream."""

    @abstractmethod
    def write(self, values: Values) -> None:
        """Write records as Python values."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write records as columns; of columnar formats only."""
        raise NotImplementedError

    def finish(self) -> None:  # noqa: B027 most formats do nothing here
        """Write the content that follows the last record."""

    def close(self) -> None:  # noqa: B027 most formats do nothing here
        """Release the stream without `finish`, since the file will not be read."""


class PartFormat(ABC):
    """Creates part writers; picklable."""

    #: Whether its writers accept record batches.
    columnar: bool = False

    @abstractmethod
    def open(self, stream: Any) -> PartWriter:
        """Return a writer into a stream, which is at the beginning of a new file."""

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """Return the format for a stream of this type. Raises TypeError if it cannot be written in it."""
        return self


class RowFormat(PartFormat):
    """A format in which files consist of the bytes of records, so they can be rolled at any record."""

    header: bytes = b""  #: the beginning of a file

    @abstractmethod
    def encode(self, values: Values) -> list[bytes]:
        """Return the bytes of each record."""

    def open(self, stream: Any) -> PartWriter:
        """Return a writer of encoded records."""
        return _RowWriter(self, stream)


class _RowWriter(PartWriter):
    def __init__(self, row_format: RowFormat, stream: Any) -> None:
        self._encode, self._stream = row_format.encode, stream
        if row_format.header:
            stream.write(row_format.header)

    def write(self, values: Values) -> None:
        self._stream.write(b"".join(self._encode(values)))


class TextLines(RowFormat):
    """One line per record, by Java's toString, with `?` for characters that `charset` (Python's name) lacks.

    Without `type_info` the classes of the values decide (`java_text_of_any`).

    Source: org.apache.flink.api.common.serialization.SimpleStringEncoder.
    """

    def __init__(self, charset: str = "utf-8", type_info: TypeInformation | None = None) -> None:
        self.charset, self.type_info = charset, type_info

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """Return the format for lines of a stream of this type."""
        declared = None if isinstance(type_info, PickledBytesTypeInfo) else type_info
        return TextLines(self.charset, declared)

    def encode(self, values: Values) -> list[bytes]:
        charset = self.charset
        if isinstance(self.type_info, BasicTypeInfo) and self.type_info._basic_type is BasicType.STRING:
            return [(value + "\n").encode(charset, "replace") for value in values]
        text = java_text_of_any if self.type_info is None else java_text(self.type_info)
        return [(text(value) + "\n").encode(charset, "replace") for value in values]


class _ColumnsFormat(PartFormat):
    columnar = True

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        self.schema = stored_schema(type_info)


class _ColumnsWriter(PartWriter):
    def __init__(self, columns: _ColumnsFormat, writer: Any, rows: int) -> None:
        self._type_info, self._schema, self._writer, self._rows = (
            columns.type_info,
            columns.schema,
            writer,
            rows,
        )
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0

    def write(self, values: Values) -> None:
        self.write_batch(stored_values(values, self._type_info, self._schema))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._pending.append(stored_batch(batch, self._schema))
        self._pending_rows += batch.num_rows
        if self._pending_rows >= self._rows:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._writer.close()

    def close(self) -> None:
        # otherwise the writer would be closed later, after its stream
        with suppress(OSError, pa.ArrowException):
            self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(table, self._rows)
            self._pending, self._pending_rows = [], 0


class ParquetFormat(_ColumnsFormat):
    """Parquet, Snappy, row groups of `rows` records; the columns are `stored_schema` of `type_info`."""

    def __init__(self, type_info: TypeInformation, rows: int = 131_072, compression: str = "snappy") -> None:
        super().__init__(type_info)
        self.rows, self.compression = rows, compression

    def open(self, stream: Any) -> PartWriter:
        """Return a writer of row groups."""
        writer = pq.ParquetWriter(stream, self.schema, compression=self.compression)
        return _ColumnsWriter(self, writer, self.rows)


class CsvColumnsFormat(_ColumnsFormat):
    """CSV by pyarrow: quotes only if required, an empty field for null, and by default a header.

    Raises TypeError for lists, maps and rows in rows, which CSV columns cannot represent.
    """

    def __init__(self, type_info: TypeInformation, *, header: bool = True, delimiter: str = ",") -> None:
        super().__init__(type_info)
        nested = [field.name for field in self.schema if pa.types.is_nested(field.type)]
        if nested:
            raise TypeError(f"columns {nested} must not be lists, maps or rows in CSV")
        self.header, self.delimiter = header, delimiter

    def open(self, stream: Any) -> PartWriter:
        """Return a writer of lines."""
        options = pa_csv.WriteOptions(
            include_header=self.header, delimiter=self.delimiter, quoting_style="needed"
        )
        return _ColumnsWriter(self, pa_csv.CSVWriter(stream, self.schema, write_options=options), 8192)


# Schemas between records and bytes, encoders of lines, factories of part files
#
# Source: pyflink.common.serialization and org.apache.flink.api.common.serialization. PyFlink's classes return
# Java objects; these do the work themselves: `serialize` and `deserialize` are beyond PyFlink's API.


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
    """Base of schemas that convert a record to bytes.

    Args:
        j_serialization_schema: Must be None: objects of Java are refused.

    Raises:
        NoJavaError: Another argument.
    """

    def __init__(self, j_serialization_schema: Any = None) -> None:
        _refuse_java(type(self).__name__, j_serialization_schema)

    def serialize(self, element: Any) -> bytes:
        """Convert a record to bytes. Penstock's own: PyFlink lacks it.

        Args:
            element: The record.

        Returns:
            bytes: Its serialized form.
        """
        raise NotImplementedError


class DeserializationSchema:
    """Base of schemas that convert bytes to a record.

    Args:
        j_deserialization_schema: Must be None: objects of Java are refused.

    Raises:
        NoJavaError: Another argument.
    """

    def __init__(self, j_deserialization_schema: Any = None) -> None:
        _refuse_java(type(self).__name__, j_deserialization_schema)

    def deserialize(self, message: bytes) -> Any:
        """Convert bytes to a record. Penstock's own: PyFlink lacks it.

        Args:
            message: The bytes of one record.

        Returns:
            The record.
        """
        raise NotImplementedError


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Converts strings to bytes of a charset, and back.

    `?` replaces characters that the charset lacks, U+FFFD replaces malformed bytes.

    Args:
        charset: A charset of Python; default UTF-8.

    Raises:
        LookupError: Unknown charset.

    Examples:
        >>> from penstock.common import SimpleStringSchema
        >>> SimpleStringSchema("ascii").serialize("naïve")
        b'na?ve'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = python_charset(charset)

    def serialize(self, element: str) -> bytes:
        return element.encode(self.charset, "replace")

    def deserialize(self, message: bytes) -> str:
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
    """Writes one field of a row, which must be bytes; empty bytes for None.

    Args:
        field_index: Position of the field, 0 or more.

    Raises:
        ValueError: A negative position.
        TypeError: When a row is written: the field is not bytes.
        IndexError: When a row is written: the field is missing.
    """

    def __init__(self, field_index: int) -> None:
        super().__init__()
        if field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index}")
        self.field_index = field_index

    def serialize(self, element: Any) -> bytes:
        if element is None or element[self.field_index] is None:
            return b""
        field = element[self.field_index]
        if not isinstance(field, (bytes, bytearray)):
            raise TypeError(f"field {self.field_index} must be bytes, got {type(field).__name__}")
        return bytes(field)


class Encoder:
    """Writes the records of a file sink."""

    def __init__(self, j_encoder: Any) -> None:
        if not isinstance(j_encoder, PartFormat):
            _refuse_java("Encoder", j_encoder)
        self.part_format: PartFormat = j_encoder

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Make an encoder with one line per record, as Java's toString.

        Args:
            charset_name: A charset of Python.

        Returns:
            Encoder: For `FileSink.for_row_format`.

        Raises:
            LookupError: Unknown charset.
        """
        return Encoder(TextLines(python_charset(charset_name)))


class BulkWriterFactory:
    """Creates writers of whole files."""

    def __init__(self, j_bulk_writer_factory: Any) -> None:
        if not isinstance(j_bulk_writer_factory, PartFormat):
            _refuse_java(type(self).__name__, j_bulk_writer_factory)
        self.part_format: PartFormat = j_bulk_writer_factory


class RowDataBulkWriterFactory(BulkWriterFactory):
    """Creates writers of files of rows."""

    def __init__(self, j_bulk_writer_factory: Any, row_type: TypeInformation) -> None:
        super().__init__(j_bulk_writer_factory)
        self._row_type = row_type

    def get_row_type(self) -> TypeInformation:
        """Return the type of the rows, a RowTypeInfo."""
        return self._row_type


def _refuse_java(name: str, java: Any) -> None:
    if java is not None:
        raise NoJavaError(f"{name} of a Java class: Penstock runs without Flink's JVM")
