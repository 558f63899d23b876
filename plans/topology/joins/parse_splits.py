"""Topology lines of local files, read and parsed in Spark's Python workers.

Spark's own reader of text holds a line whole, however long it is.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.topology.columnar.whole_lines import LongLine, whole_lines
from plans.topology.parse_lines import Line, parse_each, readable_path
from plans.topology.texts_of_file import CODECS, SPARK_ONLY, texts_of_file

SMALLEST_SPLIT_BYTES = 4 * 2**20
LARGEST_SPLIT_BYTES = 128 * 2**20
"""As spark.sql.files.maxPartitionBytes."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_END = 2**63 - 1
"""Of a file that is read to its end, wherever that is."""


def can_be_split(files: Sequence[str]) -> bool:
    """Whether these URIs are local files that Python reads as Spark does."""
    return all(uri.startswith("file:") and not uri.lower().endswith(SPARK_ONLY) for uri in files)


def splits_of_files(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """(source_file, start, end): parts of the files in bytes, of about the same size in each partition.

    A compressed file is one part. Raises OSError where a file has gone.
    """
    sizes = [os.path.getsize(readable_path(uri)) for uri in files]
    share = sum(sizes) // spark.sparkContext.defaultParallelism
    most = min(max(share, SMALLEST_SPLIT_BYTES), LARGEST_SPLIT_BYTES)
    rows = []
    filled, part = 0, 0
    for uri, size in zip(files, sizes, strict=True):
        packed = os.path.splitext(uri)[1].lower() in CODECS
        for start in (0,) if packed else range(0, max(size, 1), most):
            if filled >= most:
                filled, part = 0, part + 1
            rows.append((uri, start, _END if packed or start + most >= size else start + most, part))
            filled += size if packed else min(most, size - start)
    schema = "source_file string, start long, end long, part int"
    return spark.createDataFrame(rows, schema).repartitionById(part + 1, F.col("part")).drop("part")


def parse_splits(batches: Iterable[pa.RecordBatch], max_line_bytes: int) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over splits_of_files: the lines that begin in each part, as batches of PARSED.

    A line of more than `max_line_bytes` is rejected without being held in memory. Raises InputError.
    """
    columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
    splits = (split for of_batch in columns for split in zip(*of_batch, strict=True))
    lines = (line for uri, start, end in splits for line in _lines(uri, start, end, max_line_bytes))
    return parse_each(lines, max_line_bytes)


def _lines(uri: str, start: int, end: int, max_line_bytes: int) -> Iterator[Line]:
    for found in _whole_lines(readable_path(uri), start, end, max_line_bytes):
        if isinstance(found, LongLine):
            yield Line(found, uri, start)
        else:
            for line in found.split(b"\n")[:-1]:
                yield Line(line, uri, start)


def _whole_lines(file: str, start: int, end: int, max_line_bytes: int) -> Iterator[bytes | LongLine]:
    """Those that begin at `start` or later and before `end`."""
    texts = texts_of_file(file, start=max(0, start - 1))
    at = 0
    if start:
        dropped, texts = _after_first_line(texts)
        at = start - 1 + dropped
    for found in whole_lines(texts, max_line_bytes):
        if at >= end:
            return
        if isinstance(found, LongLine):
            at += found.size_bytes + 1
            yield found
            continue
        last = found.index(b"\n", end - 1 - at) + 1 if at + len(found) > end else len(found)
        yield found[:last].removeprefix(_BYTE_ORDER_MARK) if at == 0 else found[:last]
        at += len(found)


def _after_first_line(texts: Iterator[bytes]) -> tuple[int, Iterator[bytes]]:
    """How many bytes the first line has, its newline included, and what follows it."""
    dropped = 0
    for text in texts:
        end = text.find(b"\n")
        if end >= 0:
            rest = text[end + 1 :]
            return dropped + end + 1, (one for some in ((rest,), texts) for one in some)
        dropped += len(text)
    return dropped, iter(())
