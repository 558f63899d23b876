"""The format of CSV files for FileSource, and the formats for FileSink.

Source: pyflink.datastream.formats.csv.{CsvReaderFormat,CsvBulkWriters},
org.apache.flink.formats.csv.{CsvReaderFormat,CsvBulkWriter}.
"""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.row import Row, create_row, rows_of_columns
from penstock.operators.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)
from penstock.operators.exchange.blocks import values_of_batch
from penstock.operators.files.filesystem import FileEntry, is_compressed, open_bytes, skip_bytes
from penstock.operators.files.lines import FileSplit, by_bytes, can_be_cut, python_charset, read_lines, whole
from penstock.operators.formats.csv_rows import CsvSchema, Parse, line_writer, parse_records, parsers, quoting
from penstock.operators.formats.part_formats import PartFormat, RowDataBulkWriterFactory, RowFormat

# Blocks of plain CSV, read through Arrow ten times as fast as record by record; csv_rows reads others
#
# A block is plain if Jackson, Python's csv and Arrow agree on its records: every quote opens a value, closes
# one or is doubled, lines end at \n, and it has neither escapes nor comments.


_BLOCK = 1 << 20
_STRING = BasicTypeInfo.STRING_TYPE_INFO()
_NEWLINE = ord("\n")
_INTEGERS = {
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
}


def can_be_plain(schema: CsvSchema) -> bool:
    """Whether files of this schema may have plain blocks."""
    settings = schema.settings
    special = settings.column_separator + (settings.quote or "")
    return (
        special.isascii()
        and not set(special) & set("\r\n")
        and settings.escape is None
        and settings.any_property_name is None
        and not (settings.allow_comments or settings.use_header or settings.skip_first_data_row)
    )


def plain_blocks(file: IO[bytes], schema: CsvSchema) -> Iterator[bytes | None]:
    """Yield the file in blocks of whole records; yield None, and end, before a block that is not plain."""
    rest = b""
    while data := file.read(max(_BLOCK, len(rest))):  # no quadratic time for one long record
        block = rest + data
        end = _end_of_records(block, schema)
        if end is None:
            yield None
            return
        if end:
            yield block[:end]
        rest = block[end:]
    if rest:
        # with one more line end: a value that is then open is not plain
        yield rest if _end_of_records(rest + b"\n", schema) == len(rest) + 1 else None


def _end_of_records(block: bytes, schema: CsvSchema) -> int | None:
    """Return the end of the last whole record; None if the records up to there are not plain."""
    if b"\r" in block or b"\0" in block:
        return None
    settings = schema.settings
    quote = None if settings.quote is None else settings.quote.encode()
    if quote is None or quote not in block:
        return block.rfind(b"\n") + 1
    data = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(data == quote[0])
    newlines = np.flatnonzero(data == _NEWLINE)
    outside = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    end = int(outside[-1]) + 1 if len(outside) else 0
    quotes = quotes[: np.searchsorted(quotes, end)]
    boundary = np.zeros(256, bool)
    boundary[[_NEWLINE, ord(settings.column_separator), quote[0]]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = data[opening[opening > 0] - 1]
    well_formed = boundary[before].all() and boundary[data[closing + 1]].all()
    return end if well_formed else None


def rows_of_block(block: bytes, schema: CsvSchema, names: list[str]) -> Values | None:
    """Return the rows of a plain block; None if a value or the number of values may be wrong."""
    if _is_misread_by_arrow(block):
        return None
    settings = schema.settings
    numbers = [str(place) for place in range(len(schema))]
    types = {
        number: _arrow_type(column.type_info) for number, column in zip(numbers, schema.columns, strict=True)
    }
    quote, null = settings.quote or False, settings.null_value
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(block),
            pa_csv.ReadOptions(column_names=numbers, use_threads=False, block_size=len(block) + 1),
            pa_csv.ParseOptions(
                delimiter=settings.column_separator,
                quote_char=quote,
                newlines_in_values=bool(quote),
                ignore_empty_lines=False,
            ),
            pa_csv.ConvertOptions(column_types=types, null_values=[] if null is None else [null]),
        )
        columns = [
            _values(table[number], null is None and column.type_info == _STRING, parse)
            for number, column, parse in zip(numbers, schema.columns, parsers(schema), strict=True)
        ]
    except (pa.ArrowInvalid, ValueError):
        return None
    return rows_of_columns(names, columns)


def _is_misread_by_arrow(block: bytes) -> bool:
    """Whether Arrow would accept a hexadecimal number, or drop an empty line, which is a record."""
    data = np.frombuffer(block, np.uint8)
    first, second = data[:-1], data[1:]
    hexadecimal = (first == ord("0")) & ((second | 0x20) == ord("x"))
    empty_line = (first == _NEWLINE) & (second == _NEWLINE)
    return bool(data[0] == _NEWLINE or hexadecimal.any() or empty_line.any())


def _arrow_type(type_info: TypeInformation) -> pa.DataType:
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _INTEGERS:
        return _INTEGERS[type_info._basic_type]
    return pa.string()


def _values(column: pa.ChunkedArray, unparsed: bool, parse: Parse) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values if unparsed or not pa.types.is_string(column.type) else list(map(parse, values))


# Records in transit from a source to its operator, in chunks


#: Approximate number of values in a chunk.
CHUNK_VALUES = 4096


class Chunk(NamedTuple):
    """Some records of a split, at least one, with a parallel list of timestamps (milliseconds)."""

    values: Values
    timestamps: Timestamps = None


class StampedBatch(NamedTuple):
    """Some records of a split that never became Python objects, with timestamps (int64, milliseconds)."""

    batch: pa.RecordBatch
    timestamps: pa.Int64Array | None = None


def chunks_of(values: Values, timestamps: Timestamps = None) -> Iterator[Chunk]:
    """Cut `values` into chunks of CHUNK_VALUES."""
    if len(values) <= CHUNK_VALUES:
        if values:
            yield Chunk(values, timestamps)
        return
    for start in range(0, len(values), CHUNK_VALUES):
        end = start + CHUNK_VALUES
        yield Chunk(values[start:end], None if timestamps is None else timestamps[start:end])


# File formats for the file source: cutting files, and reading a piece
#
# Source: org.apache.flink.connector.file.src.reader.{StreamFormat,BulkFormat,TextLineInputFormat}.


class FileFormat:
    """A file format. It reads rows; with `has_batches`, it reads record batches and makes rows from them."""

    has_batches: bool = False
    type_info: TypeInformation | None = None

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        """Cut a file into splits, on the driver.

        Args:
            file: Path and size (bytes) of the file.
            piece: Bytes of a split, approximately.

        Returns:
            list[FileSplit]: In the file's order; one for a file that cannot be cut.
        """
        return whole(file, piece)

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        """Read the records of a split as Python values.

        Args:
            split: One of `cut`.

        Returns:
            Chunks of records, none empty, in order.
        """
        for batch in self.read_batches(split):
            yield from chunks_of(values_of_batch(batch, self.type_info))

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Read the records of a split as record batches.

        Args:
            split: One of `cut`.

        Returns:
            pyarrow.RecordBatches with the columns of `type_info`, none empty, in order.
        """
        raise NotImplementedError


class StreamFormat(FileFormat):
    """A format of records one after the other."""

    def __init__(self, *java: object) -> None:
        if java:
            raise NoJavaError(
                "StreamFormat of a Java class: Penstock runs without Flink's JVM; supported are "
                "StreamFormat.text_line_format and CsvReaderFormat.for_schema"
            )

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Make a format of lines of text, without their ends (LF, CR or CRLF).

        Args:
            charset_name: A charset of Python.

        Returns:
            StreamFormat: For `FileSource.for_record_stream_format`.

        Raises:
            LookupError: Unknown charset.
        """
        return TextLineFormat(charset_name)


class BulkFormat(FileFormat):
    """A format of whole batches: Parquet."""

    has_batches = True

    def __init__(self, *java: object) -> None:
        if java:
            raise NoJavaError(
                "BulkFormat of a Java class: Penstock runs without Flink's JVM; supported is "
                "ParquetColumnarRowInputFormat"
            )


class TextLineFormat(StreamFormat):
    """Lines as strings. Unlike in Flink, big files are cut if their charset allows it."""

    has_batches = True

    def __init__(self, charset: str = "UTF-8") -> None:
        super().__init__()
        self.charset = python_charset(charset)
        self.type_info = Types.STRING()

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        cuttable = can_be_cut(self.charset) and not is_compressed(file.path)
        return (by_bytes if cuttable else whole)(file, piece)

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        for lines in read_lines(split, self.charset):
            yield from chunks_of(lines)

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        for lines in read_lines(split, self.charset):
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["value"])


class CsvReaderFormat(StreamFormat):
    """Reads UTF-8 CSV into Rows.

    A file is read as a whole, since a value may contain line ends. An invalid line, even an empty one, raises
    ValueError, as in Flink.
    """

    def __init__(self, j_csv_format: CsvSchema) -> None:
        super().__init__(*(() if isinstance(j_csv_format, CsvSchema) else (j_csv_format,)))
        self.schema = j_csv_format
        self.type_info: RowTypeInfo = self.schema.row_type
        parsers(self.schema)  # raises TypeError here instead of in the subtasks

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Make a format of CSV files.

        Args:
            schema: A CsvSchema.

        Returns:
            CsvReaderFormat: For `FileSource.for_record_stream_format`.

        Raises:
            TypeError: Types that CSV cannot represent.
        """
        return CsvReaderFormat(schema)

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        size = records = lines = 0
        if can_be_plain(self.schema):
            names = self.type_info.get_field_names()
            with open_bytes(split.path) as file:
                for block in plain_blocks(file, self.schema):
                    if block is None:
                        break
                    text = block.removeprefix(BOM_UTF8) if size == 0 else block
                    rows = rows_of_block(text, self.schema, names)
                    if rows is None:
                        rows = list(self._rows(io.StringIO(text.decode(), newline=""), records, lines))
                    yield from chunks_of(rows)
                    size, records, lines = size + len(block), records + len(rows), lines + block.count(b"\n")
                else:
                    return
        with open_bytes(split.path) as file:
            skip_bytes(file, size)
            text_lines = io.TextIOWrapper(file, "utf-8" if size else "utf-8-sig", newline="")
            rows_left = self._rows(text_lines, records, lines)
            while rows := list(islice(rows_left, CHUNK_VALUES)):
                yield Chunk(rows)

    def _rows(self, text: Iterable[str], records: int, lines: int) -> Iterator[Row]:
        """Yield the rows of the text, which follows `records` records and `lines` lines."""
        names, column_parsers = self.type_info.get_field_names(), parsers(self.schema)
        for number, fields in enumerate(self._records(text, records, lines), records + 1):
            try:
                values = [parse(text) for parse, text in zip(column_parsers, fields, strict=True)]
            except ValueError as error:
                raise ValueError(f"record {number}, {fields}: {error}") from error
            yield create_row(names, values)

    def _records(self, text: Iterable[str], before: int, lines: int) -> Iterator[list[str]]:
        settings, arity = self.schema.settings, len(self.schema)
        records = parse_records(text, settings, lines)
        if settings.use_header:
            self._check_header(next(records, None))
        if settings.skip_first_data_row:
            next(records, None)
        for number, fields in enumerate(records, before + 1):
            if len(fields) > arity:
                # a separator at the end of a line is harmless
                if settings.any_property_name is None and (len(fields) > arity + 1 or fields[-1]):
                    raise ValueError(f"record {number}, {fields}: must have at most {arity} values")
                del fields[arity:]
            elif len(fields) < arity:
                raise ValueError(f"record {number}, {fields}: must have {arity} values")
            yield fields

    def _check_header(self, header: list[str] | None) -> None:
        names = [column.name for column in self.schema.columns]
        if header is not None and self.schema.settings.strict_headers and header != names:
            raise ValueError(f"the header must be {names} by the schema, got {header}")


class CsvLines(RowFormat):
    """One line per Row (or tuple), values by position."""

    def __init__(self, schema: CsvSchema) -> None:
        self.schema = schema
        line_writer(schema)  # raises TypeError here instead of in the subtasks
        quoted = quoting(schema.settings)
        names = schema.settings.column_separator.join(quoted(column.name) for column in schema.columns)
        self.header = (names + schema.settings.line_separator).encode() if schema.settings.use_header else b""

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """Return this format. Raises TypeError for streams other than rows with as many fields."""
        check_rows(type_info, len(self.schema))
        return self

    def encode(self, values: Values) -> list[bytes]:
        """Return the lines, in UTF-8."""
        line = line_writer(self.schema)
        return [line(value).encode() for value in values]


class CsvBulkWriters:
    """Creates the factory of CSV files for FileSink.for_bulk_format."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> RowDataBulkWriterFactory:
        """Make the factory of CSV files.

        Args:
            schema: A CsvSchema.

        Returns:
            RowDataBulkWriterFactory: For `FileSink.for_bulk_format`.

        Raises:
            TypeError: Types that CSV cannot represent.
        """
        return RowDataBulkWriterFactory(CsvLines(schema), schema.row_type)


def check_rows(type_info: TypeInformation | None, fields: int) -> None:
    """Raise TypeError for streams of a declared type other than rows of `fields` fields."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return
    if not isinstance(type_info, RowTypeInfo) or len(type_info.get_field_types()) != fields:
        raise TypeError(f"the sink requires rows of {fields} fields, got a stream of {type_info!r}")
