"""Packed files that only Spark can reach: it reads their bytes as they are, and workers unpack them.

Hadoop's codecs would hold a line whole, however long it is; a small file can hold a very long one.
"""

import io
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.topology.columnar.read_topology_files import (
    LongLine,
    elements_as_lines,
    head_of,
    whole_lines,
)
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document
from penstock.plans.topology.parse_lines import TopologyLine, lines_of, parse_each, readable_path
from penstock.plans.topology.unpacked_texts import BLOCK_BYTES, CODECS, broken_file, unpacked_texts


def as_they_are(ending: str) -> dict[str, str]:
    """Options of Spark's reader of text by which files whose names end so are read without unpacking them.

    Source: org.apache.hadoop.io.compress.PassthroughCodec. In the Hadoop that comes with Spark, the name of
    the option has the prefix that its packages got.
    """
    option = "io.compress.passthrough.extension"
    return {
        "io.compression.codecs": "org.apache.hadoop.io.compress.PassthroughCodec",
        option: ending,
        f"org.apache.hadoop.shaded.{option}": ending,
    }


def packed_pieces(text: DataFrame) -> DataFrame:
    """The bytes between newlines (value) of packed files that `text` reads."""
    value = F.col("value").cast("binary")
    return text.select(value, F.col("_metadata.file_path"), F.col("_metadata.file_size"))


def parse_packed_files(
    batches: Iterable[pa.RecordBatch],
    ending: str,
    max_line_bytes: int,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over packed_pieces of files whose names end in `ending`; gives batches of PARSED.

    A line, or an element of a document, of more than `max_line_bytes` is rejected without being held in
    memory. Raises InputError.
    """
    columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
    rows = (row for of_batch in columns for row in zip(*of_batch, strict=True))
    files = groupby(rows, itemgetter(1, 2))
    codec = CODECS[ending]
    lines = (line for (uri, size), of in files for line in _lines(uri, size, of, codec, max_line_bytes))
    return parse_each(lines, max_line_bytes, job_defaults)


def _lines(
    uri: str, size_bytes: int, rows: Iterator[tuple[Any, ...]], codec: str, max_line_bytes: int
) -> Iterator[TopologyLine]:
    packed = io.BufferedReader(_Pieces(map(itemgetter(0), rows), size_bytes), BLOCK_BYTES)
    try:
        texts = unpacked_texts(pa.PythonFile(packed), codec, BLOCK_BYTES)
        head = b"".join(head_of(texts))
        if is_document(head[:HEAD_BYTES]):
            yield from lines_of(elements_as_lines(chain((head,), texts), uri, max_line_bytes))
            return
        for piece in whole_lines(chain((head.removeprefix(BYTE_ORDER_MARK),), texts), max_line_bytes):
            if isinstance(piece, LongLine):
                yield TopologyLine(b"", uri, 0, too_long_bytes=piece.size_bytes)
            else:
                yield from (TopologyLine(line, uri, 0) for line in piece.split(b"\n")[:-1])
    except OSError as error:
        raise broken_file(readable_path(uri), codec, error) from None


class _Pieces(io.RawIOBase):
    """A file of `size_bytes` out of its pieces, between which there are newlines, maybe one at the end."""

    def __init__(self, pieces: Iterator[bytes], size_bytes: int) -> None:
        self._pieces, self._left = pieces, size_bytes
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest and self._left > 0:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece + b"\n")[: self._left]
            self._left -= len(self._rest)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
