"""CSV and JSON lines as record batches, by pyarrow: Penstock's own formats, for big files.

Files are cut at line ends, so that no value of them may hold one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from penstock.operators.common.arrow_types import arrow_type
from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.operators.files.filesystem import FileEntry, is_compressed, open_bytes
from penstock.operators.files.lines import FileSplit, by_bytes, line_blocks, whole
from penstock.operators.formats.csv_files import Chunk, StreamFormat, chunks_of
from penstock.operators.formats.data_types import as_row_type
from penstock.operators.formats.json_values import Convert, from_json, needs_decimals, parse_json

_HEADER_BLOCK = 1 << 16


class LinesOfColumns(StreamFormat):
    """A format of one record per line, in UTF-8; uncompressed files are cut."""

    has_batches = True

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        """Ranges of bytes, unless the file is compressed."""
        return (whole if is_compressed(file.path) else by_bytes)(file, piece)

    def _blocks(self, split: FileSplit) -> Iterator[bytes]:
        """Whole lines, some hundred KB at a time."""
        return _compressed_blocks(split.path) if is_compressed(split.path) else line_blocks(split)


class CsvColumns(LinesOfColumns):
    """Rows of CSV files with a header: the columns that `type_info` names, in whatever order files have them.

    `header` False: the columns are the type's, in its order. Values in double quotes may hold the delimiter
    and doubled quotes; an empty value without quotes, or one of `nulls`, is null. TypeError for types that
    CSV has no values of, ValueError or ArrowInvalid for files that are not of the type.
    """

    def __init__(
        self,
        type_info: RowTypeInfo,
        *,
        header: bool,
        delimiter: str,
        nulls: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.type_info: RowTypeInfo = as_row_type(type_info)
        self.header, self.delimiter, self.nulls = header, delimiter, nulls
        nested = [name for name, data_type in self._types().items() if pa.types.is_nested(data_type)]
        if nested:
            raise TypeError(f"columns {nested}: CSV has no values of their types")

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """The rows that start in a split."""
        names = self.type_info.get_field_names()
        columns = names
        skip = 0
        if self.header:
            columns, header_bytes = self._header(split.path)
            lacking = [name for name in names if name not in columns]
            if lacking:
                raise ValueError(f"{split.path} has the columns {columns}, and no {lacking[0]!r}")
            skip = header_bytes if split.start == 0 else 0
        types = self._types()
        convert = pa_csv.ConvertOptions(
            column_types={name: types.get(name, pa.string()) for name in columns},
            include_columns=names,
            null_values=list(self.nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        for lines in self._blocks(split):
            block = lines[skip:]
            skip = max(0, skip - len(lines))
            if block.strip():
                table = pa_csv.read_csv(
                    pa.BufferReader(block),
                    read_options=pa_csv.ReadOptions(
                        column_names=columns, use_threads=False, block_size=len(block) + 1
                    ),
                    parse_options=pa_csv.ParseOptions(delimiter=self.delimiter),
                    convert_options=convert,
                )
                yield from table.to_batches()

    def _types(self) -> dict[str, pa.DataType]:
        types = map(arrow_type, self.type_info.get_field_types())
        return dict(zip(self.type_info.get_field_names(), types, strict=True))

    def _header(self, path: str) -> tuple[list[str], int]:
        """The names in the first line, and where the second one starts."""
        with open_bytes(path) as file:
            first = file.read(_HEADER_BLOCK)
        end = first.find(b"\n") + 1 or len(first)
        options = pa_csv.ParseOptions(delimiter=self.delimiter)
        names: list[str] = pa_csv.read_csv(pa.BufferReader(first[:end]), parse_options=options).column_names
        return names, end


class JsonLines(LinesOfColumns):
    """One JSON value per line: rows of `type_info` by name; without a type, any value.

    Rows are made as by JsonRowDeserializationSchema; batches by pyarrow, which is strict about types. Fields
    that an object lacks are null, keys that the type lacks are dropped. ValueError for a line that is wrong.
    """

    def __init__(self, type_info: TypeInformation | None = None) -> None:
        super().__init__()
        self.type_info = type_info
        self.has_batches = isinstance(type_info, RowTypeInfo)
        _ = self._convert  # TypeError now, not in the subtasks

    @cached_property
    def _convert(self) -> Convert:
        return (lambda node: node) if self.type_info is None else from_json(self.type_info)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        """The values of the lines that start in a split; empty lines hold none."""
        convert = self._convert
        decimals = self.type_info is not None and needs_decimals(self.type_info)
        for block in self._blocks(split):
            values = []
            for line in block.splitlines():
                if line and not line.isspace():
                    try:
                        values.append(convert(parse_json(line, decimals)))
                    except ValueError as error:
                        raise ValueError(f"line {line[:200]!r}: {error}") from error
            yield from chunks_of(values)

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """The rows of the lines that start in a split."""
        options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(arrow_type(self.type_info))), unexpected_field_behavior="ignore"
        )
        for block in self._blocks(split):
            if block.strip():
                table = pa_json.read_json(
                    pa.BufferReader(block),
                    pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                    options,
                )
                yield from table.to_batches()


def _compressed_blocks(path: str) -> Iterator[bytes]:
    rest = b""
    with open_bytes(path) as file:
        while block := file.read(max(1 << 18, len(rest))):
            whole_lines, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                yield whole_lines + newline
    if rest:
        yield rest
