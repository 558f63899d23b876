"""File formats for the file source: how files are cut, and how a piece is read.

Source: org.apache.flink.connector.file.src.reader.{StreamFormat,BulkFormat,TextLineInputFormat}.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.operators.common.no_java import NoJavaError
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.exchange.rows_and_batches import values_of_batch
from penstock.operators.files.filesystem import FileEntry
from penstock.operators.files.lines import can_be_cut, python_charset, read_lines
from penstock.operators.files.open_file import is_compressed
from penstock.operators.files.splits import FileSplit, by_bytes, whole
from penstock.operators.formats.chunks import Chunk, chunks_of


class FileFormat:
    """Formats read rows; those with `has_batches` read record batches, of which rows are made."""

    has_batches: bool = False
    type_info: TypeInformation | None = None

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        """The file in splits of about `piece` bytes, in order; on the driver."""
        return whole(file, piece)

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        """The records of a split in order."""
        for batch in self.read_batches(split):
            yield from chunks_of(values_of_batch(batch, self.type_info))

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """The records of a split as non-empty batches with the columns of `type_info`."""
        raise NotImplementedError


class StreamFormat(FileFormat):
    """A format of records one after the other: text, CSV, JSON lines."""

    def __init__(self, *java: object) -> None:
        if java:
            raise NoJavaError(
                "StreamFormat of a Java class: Penstock runs without Flink's JVM; supported are "
                "StreamFormat.text_line_format and CsvReaderFormat.for_schema"
            )

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Lines of text, without their line ends (\\n, \\r or \\r\\n).

        LookupError for a charset that Python does not know.
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
    """Lines as strings. Unlike Flink, big files are cut where their charset allows it."""

    has_batches = True

    def __init__(self, charset: str = "UTF-8") -> None:
        super().__init__()
        self.charset = python_charset(charset)
        self.type_info = Types.STRING()

    def cut(self, file: FileEntry, piece: int) -> list[FileSplit]:
        """Ranges of bytes, unless the file has to be read from its beginning."""
        cuttable = can_be_cut(self.charset) and not is_compressed(file.path)
        return (by_bytes if cuttable else whole)(file, piece)

    def read_rows(self, split: FileSplit) -> Iterator[Chunk]:
        """The lines that start in the split."""
        for lines in read_lines(split, self.charset):
            yield from chunks_of(lines)

    def read_batches(self, split: FileSplit) -> Iterator[pa.RecordBatch]:
        """The same in the one column `value`."""
        for lines in read_lines(split, self.charset):
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["value"])
