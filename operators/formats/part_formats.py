"""Formats of part files, which write records into a stream.

Source: org.apache.flink.api.common.serialization.{Encoder,BulkWriter} for the two sorts of formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from penstock.operators.chain.operator import Values
from penstock.operators.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TypeInformation
from penstock.operators.formats.java_text import java_text, java_text_of_any
from penstock.operators.formats.storage_columns import stored_batch, stored_schema, stored_values


class PartWriter(ABC):
    """Writes the records of one part file; its maker closes the stream."""

    @abstractmethod
    def write(self, values: Values) -> None:
        """Records as Python values."""

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Records as columns; of columnar formats only."""
        raise NotImplementedError

    def finish(self) -> None:  # noqa: B027 most formats have nothing there
        """Write what belongs after the last record."""

    def close(self) -> None:  # noqa: B027 most formats hold nothing
        """Release the stream without `finish`: the file will not be read."""


class PartFormat(ABC):
    """Makes part writers; picklable."""

    #: Whether its writers take record batches.
    columnar: bool = False

    @abstractmethod
    def open(self, stream: Any) -> PartWriter:
        """A writer into a stream, which is at the beginning of a new file."""

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """The format for a stream of this type. TypeError if it cannot be written so."""
        return self


class RowFormat(PartFormat):
    """A format in which a record is some bytes and nothing else: its files can be rolled at any record."""

    header: bytes = b""  #: what a file starts with

    @abstractmethod
    def encode(self, values: Values) -> list[bytes]:
        """The bytes of each record."""

    def open(self, stream: Any) -> PartWriter:
        """A writer of encoded records."""
        return _RowWriter(self, stream)


class _RowWriter(PartWriter):
    def __init__(self, row_format: RowFormat, stream: Any) -> None:
        self._encode, self._stream = row_format.encode, stream
        if row_format.header:
            stream.write(row_format.header)

    def write(self, values: Values) -> None:
        self._stream.write(b"".join(self._encode(values)))


class TextLines(RowFormat):
    """One line per record, as Java's toString has it, `?` for what `charset` (Python's name) lacks.

    Without `type_info` the classes of the values decide (`java_text_of_any`).

    Source: org.apache.flink.api.common.serialization.SimpleStringEncoder.
    """

    def __init__(self, charset: str = "utf-8", type_info: TypeInformation | None = None) -> None:
        self.charset, self.type_info = charset, type_info

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """Lines of a stream of this type."""
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
        # else the writer would be closed later, after its stream
        with suppress(OSError, pa.ArrowException):
            self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(table, self._rows)
            self._pending, self._pending_rows = [], 0


class ParquetFormat(_ColumnsFormat):
    """Parquet, Snappy, row groups of `rows` records; columns of `type_info` as `stored_schema` has them."""

    def __init__(self, type_info: TypeInformation, rows: int = 131_072, compression: str = "snappy") -> None:
        super().__init__(type_info)
        self.rows, self.compression = rows, compression

    def open(self, stream: Any) -> PartWriter:
        """A writer of row groups."""
        writer = pq.ParquetWriter(stream, self.schema, compression=self.compression)
        return _ColumnsWriter(self, writer, self.rows)


class CsvColumnsFormat(_ColumnsFormat):
    """CSV by pyarrow: texts in quotes where they need them, nothing for null, a header unless told otherwise.

    TypeError for lists, maps and rows in rows, which CSV has no columns for.
    """

    def __init__(self, type_info: TypeInformation, *, header: bool = True, delimiter: str = ",") -> None:
        super().__init__(type_info)
        nested = [field.name for field in self.schema if pa.types.is_nested(field.type)]
        if nested:
            raise TypeError(f"columns {nested}: CSV has no columns of lists, maps or rows")
        self.header, self.delimiter = header, delimiter

    def open(self, stream: Any) -> PartWriter:
        """A writer of lines."""
        options = pa_csv.WriteOptions(
            include_header=self.header, delimiter=self.delimiter, quoting_style="needed"
        )
        return _ColumnsWriter(self, pa_csv.CSVWriter(stream, self.schema, write_options=options), 8192)
