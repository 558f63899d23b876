"""The file source and its builder.

Source: org.apache.flink.connector.file.src.FileSource and pyflink.datastream.connectors.file_system.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.arguments import require_text
from penstock.operators.common.arrow_types import arrow_type
from penstock.operators.common.pickles import UnidentifiableError, identify_value
from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.operators.connectors.source import Source
from penstock.operators.files.filesystem import (
    FileEntry,
    find_files,
    identify_files,
    is_compressed,
    open_bytes,
)
from penstock.operators.files.lines import Cut, FileSplit, by_bytes, line_blocks, split_files, whole
from penstock.operators.formats.csv_files import (
    BulkFormat,
    Chunk,
    FileFormat,
    StampedBatch,
    StreamFormat,
    TextLineFormat,
    chunks_of,
)
from penstock.operators.formats.data_types import as_row_type
from penstock.operators.formats.json_values import Convert, from_json, needs_decimals, parse_json
from penstock.operators.formats.parquet_files import ParquetRows, type_of_parquet

# CSV and JSON lines as record batches, by pyarrow: Penstock's own formats, for big files
#
# Files are cut at line ends, so values must not contain a line end.


_HEADER_BLOCK = 1 << 16


class LinesOfColumns(StreamFormat):
    """A format of one record per line, in UTF-8; uncompressed files are cut."""

    has_batches = True

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        """Return ranges of bytes; the whole file if it is compressed."""
        return (whole if is_compressed(file.path) else by_bytes)(file, piece)

    def _blocks(self, split: FileSplit) -> Iterator[bytes]:
        """Yield whole lines, some hundred KB at a time."""
        return _compressed_blocks(split.path) if is_compressed(split.path) else line_blocks(split)


class CsvColumns(LinesOfColumns):
    """Rows of CSV files with a header: the columns named by `type_info`, in any order in the files.

    `header` False: the columns are the type's, in its order. Values in double quotes may contain the
    delimiter and doubled quotes; an empty value without quotes, or one of `nulls`, is null. Raises TypeError
    for types that CSV cannot represent, ValueError or ArrowInvalid for files that are not of the type.
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
            raise TypeError(f"columns {nested} must not have nested types in CSV")

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """Yield the rows that start in a split."""
        names = self.type_info.get_field_names()
        columns = names
        skip = 0
        if self.header:
            columns, header_bytes = self._header(split.path)
            lacking = [name for name in names if name not in columns]
            if lacking:
                raise ValueError(f"{split.path} must have the column {lacking[0]!r}, got {columns}")
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
        """Return the names in the first line, and the position of the second line."""
        with open_bytes(path) as file:
            first = file.read(_HEADER_BLOCK)
        end = first.find(b"\n") + 1 or len(first)
        options = pa_csv.ParseOptions(delimiter=self.delimiter)
        names: list[str] = pa_csv.read_csv(pa.BufferReader(first[:end]), parse_options=options).column_names
        return names, end


class JsonLines(LinesOfColumns):
    """One JSON value per line: rows of `type_info` by name; without a type, any value.

    Rows are made as by JsonRowDeserializationSchema; batches by pyarrow, which is strict about types. Fields
    that an object lacks are null, keys that the type lacks are dropped. Raises ValueError for an invalid
    line.
    """

    def __init__(self, type_info: TypeInformation | None = None) -> None:
        super().__init__()
        self.type_info = type_info
        self.has_batches = isinstance(type_info, RowTypeInfo)
        _ = self._convert  # raises TypeError here instead of in the subtasks

    @cached_property
    def _convert(self) -> Convert:
        return (lambda node: node) if self.type_info is None else from_json(self.type_info)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_convert"}

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        """Yield the values of the lines that start in a split; empty lines have none."""
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
        """Yield the rows of the lines that start in a split."""
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


class FileEnumeratorProvider:
    """Chooses whether large files are split; folders are always searched, hidden files always left out.

    Args:
        splittable: Whether they are.
    """

    def __init__(self, splittable: bool) -> None:
        self.splittable = splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return the default: large files are split where their format allows it."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Return the other choice: one split per file."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider(enum.Enum):
    """Assigns splits to subtasks: by size, before the job starts."""

    LOCALITY_AWARE = "locality aware"

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Accepted as a hint: Spark has placed the subtasks before splits are read."""
        return FileSplitAssignerProvider.LOCALITY_AWARE


class FileSource(Source):
    """Reads the records of all files at and below some paths.

    A subtask reads its splits in order of path. Made by the methods below or by `text_source` and its like.
    A path that does not exist raises FileNotFoundError when the job starts; an error while reading names its
    file.
    """

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...], *, splittable: bool = True) -> None:
        super().__init__()
        if not isinstance(file_format, FileFormat):
            raise TypeError(
                f"file_format must be a StreamFormat or BulkFormat, got {type(file_format).__name__}"
            )
        if not paths or not all(require_text(path, "a path") for path in paths):
            raise ValueError("paths must not be empty")
        self.file_format, self.paths, self.splittable = file_format, paths, splittable
        self.type_info = file_format.type_info
        self.has_batches = file_format.has_batches

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Start building a source of text lines or CSV.

        Args:
            stream_format: A StreamFormat.
            *paths: Files and folders.

        Returns:
            FileSourceBuilder: `build()` ends it.
        """
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Start building a source of Parquet files.

        Args:
            bulk_format: A BulkFormat.
            *paths: Files and folders.

        Returns:
            FileSourceBuilder: `build()` ends it.
        """
        return FileSourceBuilder(bulk_format, paths)

    def fingerprint(self) -> str | None:
        """Return a text that differs whenever the files or their format do.

        Returns:
            str | None: None if the files or the format cannot be identified.
        """
        files = identify_files(self.paths)
        try:
            return None if files is None else f"{files} {identify_value(self.file_format)}"
        except UnidentifiableError:
            return None

    def splits(self, parallelism: int) -> list[list[Any]]:
        cut: Cut = self.file_format.cut if self.splittable else whole
        return split_files(find_files(self.paths), parallelism, cut)

    def read(self, split: FileSplit, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        try:
            if self.columnar:
                for batch in self.file_format.read_batches(split):
                    yield StampedBatch(batch)
            else:
                yield from self.file_format.read_rows(split)
        except Exception as error:
            error.add_note(f"while reading {split.path} from byte {split.start}, {split.length} bytes")
            raise


class FileSourceBuilder:
    """Builds a FileSource."""

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...]) -> None:
        self._source = FileSource(file_format, paths)

    def monitor_continuously(self, discovery_interval: Any) -> FileSourceBuilder:
        """Refuse a source that looks for new files: it would never end, and input here is bounded.

        Args:
            discovery_interval: Not read.

        Raises:
            NotImplementedError: Always; `process_static_file_set` is supported.
        """
        raise NotImplementedError(
            "FileSourceBuilder.monitor_continuously makes an unbounded source, and only bounded input is "
            "supported; supported is process_static_file_set"
        )

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist when the job starts; the default.

        Returns:
            FileSourceBuilder: This builder.
        """
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Set whether large files may be split.

        Args:
            file_enumerator: A FileEnumeratorProvider.

        Returns:
            FileSourceBuilder: This builder.
        """
        self._source.splittable = file_enumerator.splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accept Flink's assigner, without effect: splits are assigned by size.

        Args:
            split_assigner: A FileSplitAssignerProvider.

        Returns:
            FileSourceBuilder: This builder.

        Raises:
            TypeError: Not a FileSplitAssignerProvider.
        """
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeError(
                f"split_assigner must be a FileSplitAssignerProvider, got {type(split_assigner).__name__}"
            )
        return self

    def build(self) -> FileSource:
        """Return the source.

        Returns:
            FileSource: For `from_source`.
        """
        return self._source


# Sources of files by one call: text, CSV, JSON lines, Parquet
#
# `paths` are files, or folders with all files below them, as paths or URIs; files whose names start with `.`
# or `_` are left out. Big files are cut over the subtasks, compressed ones are read whole. Raises ValueError
# without paths; FileNotFoundError, when the job is planned, for a path that does not exist.


def text_source(*paths: str, charset: str = "UTF-8") -> FileSource:
    """Read lines of text files, as strings.

    Args:
        *paths: Files, folders, and paths below which all files are read.
        charset: A charset of Python; default UTF-8.

    Returns:
        FileSource: For `from_source`.

    Raises:
        LookupError: Unknown charset.

    Examples:
        >>> from penstock.common import WatermarkStrategy
        >>> from penstock.connectors import text_source
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> lines = env.from_source(text_source("logs"), WatermarkStrategy.no_watermarks(), "logs")
    """
    return FileSource(TextLineFormat(charset), paths)


def csv_source(
    *paths: str,
    type_info: RowTypeInfo,
    header: bool = True,
    delimiter: str = ",",
    nulls: tuple[str, ...] = ("",),
) -> FileSource:
    """Read rows of CSV files; no value may hold a line end.

    Args:
        *paths: Files, folders, and paths below which all files are read.
        type_info: A row type, `Types.ROW_NAMED`.
        header: The first line of each file has the names.
        delimiter: One character.
        nulls: Texts that mean null; default the empty text.

    Returns:
        FileSource: For `from_source`.
    """
    return FileSource(CsvColumns(type_info, header=header, delimiter=delimiter, nulls=nulls), paths)


def json_lines_source(*paths: str, type_info: TypeInformation | None = None) -> FileSource:
    """Read files with one JSON value per line.

    Args:
        *paths: Files, folders, and paths below which all files are read.
        type_info: A row type; default: each value as Python reads it.

    Returns:
        FileSource: For `from_source`.
    """
    return FileSource(JsonLines(type_info), paths)


def parquet_source(*paths: str, type_info: RowTypeInfo | None = None) -> FileSource:
    """Read rows of Parquet files, columns by name.

    Args:
        *paths: Files, folders, and paths below which all files are read.
        type_info: A row type; default: all columns of the first file.

    Returns:
        FileSource: For `from_source`.

    Raises:
        ValueError: No type is given and there is no file.
    """
    if type_info is None:
        files = find_files(paths)
        if not files:
            raise ValueError(f"type_info is required: {', '.join(paths)} has no file with a type")
        type_info = type_of_parquet(files[0].path)
    return FileSource(ParquetRows(type_info), paths)
