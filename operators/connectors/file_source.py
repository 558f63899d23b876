"""The file source and its builder.

Source: org.apache.flink.connector.file.src.FileSource and pyflink.datastream.connectors.file_system.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.arguments import require_text
from penstock.operators.common.identify_value import UnidentifiableError, identify_value
from penstock.operators.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.operators.connectors.source import Source
from penstock.operators.files.filesystem import find_files, identify_files
from penstock.operators.files.lines import Cut, FileSplit, split_files, whole
from penstock.operators.formats.column_lines import CsvColumns, JsonLines
from penstock.operators.formats.csv_files import (
    BulkFormat,
    Chunk,
    FileFormat,
    StampedBatch,
    StreamFormat,
    TextLineFormat,
)
from penstock.operators.formats.parquet_files import ParquetRows, type_of_parquet


class FileEnumeratorProvider:
    """Says whether files may be cut; folders are always searched, hidden files always left out."""

    def __init__(self, splittable: bool) -> None:
        self.splittable = splittable

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Big files are cut where their format allows it; the default."""
        return FileEnumeratorProvider(True)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """One split per file."""
        return FileEnumeratorProvider(False)


class FileSplitAssignerProvider(enum.Enum):
    """Assigns splits to subtasks: by size, before the job starts."""

    LOCALITY_AWARE = "locality aware"

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Accepted as a hint: Spark has placed the subtasks before splits are read."""
        return FileSplitAssignerProvider.LOCALITY_AWARE


class FileSource(Source):
    """The records of all files at and below some paths, by their format.

    A subtask reads its splits in order of path. Make one with `for_record_stream_format`,
    `for_bulk_file_format`, or the functions of operators.connectors.file_sources.
    """

    def __init__(self, file_format: FileFormat, paths: tuple[str, ...], *, splittable: bool = True) -> None:
        super().__init__()
        if not isinstance(file_format, FileFormat):
            raise TypeError(f"found {type(file_format).__name__} instead of a StreamFormat or BulkFormat")
        if not paths or not all(require_text(path, "a path") for path in paths):
            raise ValueError("paths must not be empty")
        self.file_format, self.paths, self.splittable = file_format, paths, splittable
        self.type_info = file_format.type_info
        self.has_batches = file_format.has_batches

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Start building a source of text lines or CSV."""
        return FileSourceBuilder(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Start building a source of Parquet files."""
        return FileSourceBuilder(bulk_format, paths)

    def fingerprint(self) -> str | None:
        """Its files as they are now (`identify_files`), and its format; None if these cannot be told."""
        files = identify_files(self.paths)
        try:
            return None if files is None else f"{files} {identify_value(self.file_format)}"
        except UnidentifiableError:
            return None

    def splits(self, parallelism: int) -> list[list[Any]]:
        """Files and pieces of files, by their bytes. FileNotFoundError if a path leads nowhere."""
        cut: Cut = self.file_format.cut if self.splittable else whole
        return split_files(find_files(self.paths), parallelism, cut)

    def read(self, split: FileSplit, context: OperatorContext) -> Iterator[Chunk | StampedBatch]:
        """The records of a split; errors name its file."""
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
        """NotImplementedError: the stream of files would never end, and input here is bounded."""
        raise NotImplementedError(
            "FileSourceBuilder.monitor_continuously makes an unbounded source, and only bounded input is "
            "supported; supported is process_static_file_set"
        )

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist when the job starts; the default."""
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Say whether big files may be cut."""
        self._source.splittable = file_enumerator.splittable
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepted: splits are assigned by size."""
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise TypeError(f"found {type(split_assigner).__name__} instead of a FileSplitAssignerProvider")
        return self

    def build(self) -> FileSource:
        """The source."""
        return self._source


# Sources of files by one call: text, CSV, JSON lines, Parquet.
#
# `paths` are files, or folders with everything below them, as paths or URIs; files whose names start with `.`
# or `_` are left out. Big files are cut over the subtasks, compressed ones are read whole. Raises ValueError
# without paths; FileNotFoundError, when the job is planned, where one leads nowhere.


def text_source(*paths: str, charset: str = "UTF-8") -> FileSource:
    """Lines as strings."""
    return FileSource(TextLineFormat(charset), paths)


def csv_source(
    *paths: str,
    type_info: RowTypeInfo,
    header: bool = True,
    delimiter: str = ",",
    nulls: tuple[str, ...] = ("",),
) -> FileSource:
    """Rows of CSV files; no value may hold a line end (CsvReaderFormat takes those). See CsvColumns."""
    return FileSource(CsvColumns(type_info, header=header, delimiter=delimiter, nulls=nulls), paths)


def json_lines_source(*paths: str, type_info: TypeInformation | None = None) -> FileSource:
    """One value per line: rows of a type, or any JSON. See JsonLines."""
    return FileSource(JsonLines(type_info), paths)


def parquet_source(*paths: str, type_info: RowTypeInfo | None = None) -> FileSource:
    """Rows of Parquet files: columns by name. Without `type_info`, all columns of the first file.

    ValueError without a type if there is no file.
    """
    if type_info is None:
        files = find_files(paths)
        if not files:
            raise ValueError(f"there is no file in {', '.join(paths)} to take the type from")
        type_info = type_of_parquet(files[0].path)
    return FileSource(ParquetRows(type_info), paths)
