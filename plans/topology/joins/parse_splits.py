"""Topology lines of local files, read and parsed in Spark's Python workers.

Spark's own reader of text holds a line whole, however long it is.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.plans.tables.column_types import BOOL, INT, LONG, STR
from penstock.plans.topology.columnar.read_topology_files import (
    LongLine,
    elements_as_lines,
    head_of,
    whole_lines,
)
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document, may_open_document
from penstock.plans.topology.parse_lines import TopologyLine, lines_of, parse_each, readable_path
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

SMALLEST_SPLIT_BYTES = 4 * 2**20
LARGEST_SPLIT_BYTES = 128 * 2**20
"""As spark.sql.files.maxPartitionBytes."""

_FIRST_BYTES = 2**16
"""Enough for the first line of nearly every file, which mostly tells JSON lines from a document."""

_SPLITS = pa.schema(
    [("source_file", STR), ("start", LONG), ("end", LONG), ("is_document", BOOL), ("part", INT)]
)

_END = 2**63 - 1
"""Of a file that is read to its end, wherever that is."""


def can_be_split(files: Sequence[str]) -> bool:
    """Whether these URIs are local files, which Python reads as Spark does."""
    return all(uri.startswith("file:") for uri in files)


def splits_of_files(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """(source_file, start, end, is_document): parts of the files in bytes, about the same size per partition.

    A compressed file is one part, and so is a JSON document. Raises OSError if a file has gone, InputError
    if one cannot be read.
    """
    sizes = [os.path.getsize(readable_path(uri)) for uri in files]
    share = sum(sizes) // spark.sparkContext.defaultParallelism
    most = min(max(share, SMALLEST_SPLIT_BYTES), LARGEST_SPLIT_BYTES)
    rows = []
    filled, part = 0, 0
    for uri, size in zip(files, sizes, strict=True):
        packed = os.path.splitext(uri)[1].lower() in CODECS
        document = _is_document(readable_path(uri), packed)
        whole = document or packed
        for start in (0,) if whole else range(0, max(size, 1), most):
            if filled >= most:
                filled, part = 0, part + 1
            end = _END if whole or start + most >= size else start + most
            rows.append((uri, start, end, document, part))
            filled += size if whole else min(most, size - start)
    splits = pa.Table.from_pylist([dict(zip(_SPLITS.names, row, strict=True)) for row in rows], _SPLITS)
    return spark.createDataFrame(splits).repartitionById(part + 1, F.col("part")).drop("part")


def _is_document(file: str, packed: bool) -> bool:
    if not packed:
        with open(file, "rb") as opened:
            first, newline, _ = opened.read(_FIRST_BYTES).lstrip().partition(b"\n")
        if newline and not may_open_document(first):
            return False
    return is_document(b"".join(head_of(texts_of_file(file)))[:HEAD_BYTES])


def parse_splits(
    batches: Iterable[pa.RecordBatch], max_line_bytes: int, job_defaults: JobDefaults = NO_DEFAULTS
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over splits_of_files: the lines that begin in each part, as batches of PARSED.

    A line of more than `max_line_bytes` is rejected without being held in memory. Raises InputError.
    """
    columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
    splits = (split for of_batch in columns for split in zip(*of_batch, strict=True))
    lines = (
        line
        for uri, start, end, document in splits
        for line in (_elements(uri, max_line_bytes) if document else _lines(uri, start, end, max_line_bytes))
    )
    return parse_each(lines, max_line_bytes, job_defaults)


def _elements(uri: str, max_line_bytes: int) -> Iterator[TopologyLine]:
    return lines_of(elements_as_lines(texts_of_file(readable_path(uri)), uri, max_line_bytes))


def _lines(uri: str, start: int, end: int, max_line_bytes: int) -> Iterator[TopologyLine]:
    for piece in _whole_lines(readable_path(uri), start, end, max_line_bytes):
        if isinstance(piece, LongLine):
            yield TopologyLine(b"", uri, start, too_long_bytes=piece.size_bytes)
        else:
            for line in piece.split(b"\n")[:-1]:
                yield TopologyLine(line, uri, start)


def _whole_lines(file: str, start: int, end: int, max_line_bytes: int) -> Iterator[bytes | LongLine]:
    """The lines that begin at `start` or later and before `end`."""
    texts = texts_of_file(file, start=max(0, start - 1))
    at = 0
    if start:
        dropped, texts = _after_first_line(texts)
        at = start - 1 + dropped
    for piece in whole_lines(texts, max_line_bytes):
        if at >= end:
            return
        if isinstance(piece, LongLine):
            at += piece.size_bytes + 1
            yield piece
            continue
        last = piece.index(b"\n", end - 1 - at) + 1 if at + len(piece) > end else len(piece)
        yield piece[:last].removeprefix(BYTE_ORDER_MARK) if at == 0 else piece[:last]
        at += len(piece)


def _after_first_line(texts: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """The size of the first line, its newline included, and the text after it."""
    dropped = 0
    for text in texts:
        end = text.find(b"\n")
        if end >= 0:
            rest = text[end + 1 :]
            return dropped + end + 1, (piece for pieces in ((rest,), texts) for piece in pieces)
        dropped += len(text)
    return dropped, iter(())
