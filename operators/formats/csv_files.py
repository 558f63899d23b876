"""CSV files: the reader's format for FileSource, and the writers' for FileSink.

Source: pyflink.datastream.formats.csv.{CsvReaderFormat,CsvBulkWriters},
org.apache.flink.formats.csv.{CsvReaderFormat,CsvBulkWriter}.
"""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from itertools import islice

from penstock.operators.chain.operator import Values
from penstock.operators.common.row import Row, create_row
from penstock.operators.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TypeInformation
from penstock.operators.files.open_file import open_bytes, skip_bytes
from penstock.operators.files.splits import FileSplit
from penstock.operators.formats.chunks import CHUNK_VALUES, Chunk, chunks_of
from penstock.operators.formats.csv_blocks import can_be_plain, plain_blocks, rows_of_block
from penstock.operators.formats.csv_rows import line_writer, parse_records, parsers, quoting
from penstock.operators.formats.csv_schema import CsvSchema
from penstock.operators.formats.file_format import StreamFormat
from penstock.operators.formats.part_formats import PartFormat, RowFormat
from penstock.operators.formats.serialization import RowDataBulkWriterFactory


class CsvReaderFormat(StreamFormat):
    """Reads UTF-8 CSV into Rows. A file is read as a whole, since a value may hold line ends."""

    def __init__(self, j_csv_format: CsvSchema) -> None:
        super().__init__(*(() if isinstance(j_csv_format, CsvSchema) else (j_csv_format,)))
        self.schema = j_csv_format
        self.type_info: RowTypeInfo = self.schema.row_type
        parsers(self.schema)  # TypeError now, not in the subtasks

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """The format of files of this schema. TypeError for types of columns that CSV has no values of."""
        return CsvReaderFormat(schema)

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        """The rows of a file. ValueError if a line is wrong, as in Flink also where it is empty."""
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
        """The rows of the text, which follows `records` records and `lines` lines."""
        names, of_columns = self.type_info.get_field_names(), parsers(self.schema)
        for number, fields in enumerate(self._records(text, records, lines), records + 1):
            try:
                values = [parse(text) for parse, text in zip(of_columns, fields, strict=True)]
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
                # a separator at the end of a line does no harm
                if settings.any_property_name is None and (len(fields) > arity + 1 or fields[-1]):
                    raise ValueError(f"record {number}, {fields}: expected at most {arity} values")
                del fields[arity:]
            elif len(fields) < arity:
                raise ValueError(f"record {number}, {fields}: expected {arity} values")
            yield fields

    def _check_header(self, header: list[str] | None) -> None:
        names = [column.name for column in self.schema.columns]
        if header is not None and self.schema.settings.strict_headers and header != names:
            raise ValueError(f"found the header {header}; the schema's columns are {names}")


class CsvLines(RowFormat):
    """One line per Row (or tuple), values by position."""

    def __init__(self, schema: CsvSchema) -> None:
        self.schema = schema
        line_writer(schema)  # TypeError now, not in the subtasks
        quoted = quoting(schema.settings)
        names = schema.settings.column_separator.join(quoted(column.name) for column in schema.columns)
        self.header = (names + schema.settings.line_separator).encode() if schema.settings.use_header else b""

    def for_type(self, type_info: TypeInformation | None) -> PartFormat:
        """The same. TypeError for streams of other records than rows of as many fields."""
        check_rows(type_info, len(self.schema))
        return self

    def encode(self, values: Values) -> list[bytes]:
        """The lines, in UTF-8."""
        line = line_writer(self.schema)
        return [line(value).encode() for value in values]


class CsvBulkWriters:
    """Makes the factory of CSV files for FileSink.for_bulk_format."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> RowDataBulkWriterFactory:
        """Files of this schema, UTF-8. TypeError for types of columns that CSV has no values of."""
        return RowDataBulkWriterFactory(CsvLines(schema), schema.row_type)


def check_rows(type_info: TypeInformation | None, fields: int) -> None:
    """TypeError for streams of a declared type other than rows of `fields` fields."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return
    if not isinstance(type_info, RowTypeInfo) or len(type_info.get_field_types()) != fields:
        raise TypeError(f"the sink takes rows of {fields} fields, and the stream has {type_info!r}")
