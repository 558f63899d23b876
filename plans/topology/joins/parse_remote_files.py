"""Topology files on remote file systems, read by Spark, of which no line is held if it is too long.

Hadoop's reader skips lines that are longer than its limit, but cuts off the last one of its part of the file.
With a limit above the size of a part (spark.sql.files.maxPartitionBytes), every line that long is a last one.
Source: org.apache.hadoop.mapreduce.lib.input.LineRecordReader.
"""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count, groupby
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.topology.columnar.read_topology_files import (
    LongLine,
    elements_as_lines,
    head_of,
    whole_lines,
)
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.joins.topologies_of_lines import parsed_lines
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document, may_open_document
from penstock.plans.topology.parse_lines import (
    LINES,
    PARSED,
    TopologyLine,
    lines_of,
    parse_each,
    readable_path,
)
from penstock.plans.topology.unpacked_texts import BLOCK_BYTES, CODECS, broken_file, unpacked_texts

# Packed files that only Spark can reach: it reads their bytes as they are, and workers unpack them.
#
# Hadoop's codecs would hold a line whole, however long it is; a small file can hold a very long one.


def _as_they_are(ending: str) -> dict[str, str]:
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


def _packed_pieces(text: DataFrame) -> DataFrame:
    """The bytes between newlines (value) of packed files that `text` reads."""
    value = F.col("value").cast("binary")
    return text.select(value, F.col("_metadata.file_path"), F.col("_metadata.file_size"))


def _parse_packed_files(
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
    lines = (
        line for (uri, size), of in files for line in _packed_lines(uri, size, of, codec, max_line_bytes)
    )
    return parse_each(lines, max_line_bytes, job_defaults)


def _packed_lines(
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


_LONGEST = "mapreduce.input.linerecordreader.line.maxlength"
_LARGEST_INT = 2**31 - 1


def parse_remote_files(
    spark: SparkSession,
    read: Callable[..., DataFrame],
    uris: Sequence[str],
    max_line_bytes: int,
    job_defaults: JobDefaults,
    documents: Sequence[str] = (),
) -> Iterator[DataFrame]:
    """The content of the files `uris` as PARSED, in several DataFrames.

    `read`: gives those files by Spark's reader of text, with options. `documents`: those of them that are
    known to be documents; others that are documents only say so. Files that a codec of the user's own unpacks
    are read by whole lines.
    """
    packed, others = _endings(spark, uris)
    most = spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes()
    cut_bytes = min(max(max_line_bytes, most) + 2, _LARGEST_INT)
    bounded = {_LONGEST: str(cut_bytes)}
    path = F.col("_metadata.file_path")

    def parsed(text: DataFrame) -> DataFrame:
        lines = _lines(text.where(~path.isin(list(documents))) if documents else text, max_line_bytes)
        parse = partial(
            parse_all_but_documents,
            max_line_bytes=max_line_bytes,
            job_defaults=job_defaults,
            cut_bytes=cut_bytes,
        )
        return lines.mapInArrow(parse, from_arrow_schema(PARSED))

    yield parsed(read(**bounded).where(_none_ends_in(path, [*packed, *others])))
    for ending in others:
        yield parsed(read().where(path.endswith(ending)))
    for ending in packed:
        pieces = _packed_pieces(read(**_as_they_are(ending)).where(path.endswith(ending)))
        parse = partial(
            _parse_packed_files, ending=ending, max_line_bytes=max_line_bytes, job_defaults=job_defaults
        )
        yield pieces.mapInArrow(parse, from_arrow_schema(PARSED))
    if documents:
        text = read(lineSep=PIECE_ENDS_AT, **bounded)
        elements = elements_of_documents(text, documents, max_line_bytes)
        yield parsed_lines(elements, max_line_bytes, job_defaults, cut_bytes)


def _endings(spark: SparkSession, uris: Sequence[str]) -> tuple[list[str], list[str]]:
    """The name endings of packed files: those that workers unpack, and those that only Hadoop can."""
    jvm = spark._jvm
    assert jvm is not None
    hadoop = jvm.org.apache.hadoop
    known = hadoop.io.compress.CompressionCodecFactory(spark._jsparkSession.sessionState().newHadoopConf())
    endings = sorted({os.path.splitext(uri)[1] for uri in uris})
    packed = [ending for ending in endings if ending in CODECS]
    others = [e for e in endings if e and e not in CODECS and known.getCodec(hadoop.fs.Path(f"x{e}"))]
    return packed, others


def _none_ends_in(path: Column, endings: Sequence[str]) -> Column:
    condition = F.lit(True)
    for ending in endings:
        condition &= ~path.endswith(ending)
    return condition


def _lines(text: DataFrame, max_line_bytes: int) -> DataFrame:
    """LINES. Of a line that is too long, a worker gets only the start, which may show a document."""
    size = F.octet_length("value").cast("long")
    too_long = size > max_line_bytes
    value = F.col("value").cast("binary")
    return text.select(
        F.when(too_long, F.substring(value, 1, HEAD_BYTES)).otherwise(value).alias("value"),
        F.col("_metadata.file_path").alias("source_file"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.lit(None).cast("long").alias("ordinal"),
        F.lit(None).cast("string").alias("problem"),
        F.lit(None).cast("long").alias("line"),
        F.when(too_long, size).alias("too_long_bytes"),
    )


# Lines of files that Spark reads, parsed, with files that turn out to be JSON documents left out.


def parse_all_but_documents(
    batches: Iterable[pa.RecordBatch],
    max_line_bytes: int | None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    cut_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over LINES; gives batches of PARSED.

    As parse_lines, but the first block of a file that is a document (see json_documents) gives one row that
    says so; what its other blocks give is of no use.
    """
    documents: list[str] = []
    lines = _without_documents(lines_of(batches), documents)
    yield from parse_each(lines, max_line_bytes, job_defaults, cut_bytes)
    if documents:
        of_each = [{"source_file": file, "block_start": 0, "is_document": True} for file in documents]
        yield pa.RecordBatch.from_pylist(of_each, PARSED)


def _without_documents(lines: Iterable[TopologyLine], documents: list[str]) -> Iterator[TopologyLine]:
    """The lines but those of a file's first block if it is a document, which is added to `documents`."""
    for (file, start), of_block in groupby(lines, attrgetter("source_file", "block_start")):
        if file is None or start != 0:
            yield from of_block
            continue
        head: list[TopologyLine] = []
        size, opened = 0, False
        for line in of_block:
            head.append(line)
            size += len(line.value) + 1
            if not opened and line.value.removeprefix(BYTE_ORDER_MARK).strip():
                opened = may_open_document(line.value)
                if not opened:
                    break
            if size >= HEAD_BYTES:
                break
        if opened and is_document(b"".join(line.value + b"\n" for line in head)[:HEAD_BYTES]):
            documents.append(file)
            continue
        yield from chain(head, of_block)  # noqa: B031 - the rest of the block


# Files that are JSON documents, read by Spark piece by piece, as LINES of their elements.
#
# A piece ends at a quotation mark: a line may be as long as the whole document, while a string that is
# longer than an element may be makes its element too long.


PIECE_ENDS_AT = '"'

_FILES_A_CORE = 4
_END = PIECE_ENDS_AT.encode()
_SCHEMA = pa.schema(
    [("value", pa.binary()), ("source_file", pa.string()), ("block_start", pa.int64()), ("place", pa.int64())]
)


def elements_of_documents(text: DataFrame, documents: Sequence[str], max_line_bytes: int) -> DataFrame:
    """The elements of the files `documents` as LINES; `text` reads them in pieces.

    The pieces of a document meet in one partition, in their order; of each no more is held than one element.
    """
    cores = text.sparkSession.sparkContext.defaultParallelism
    place = F.col("_metadata.file_path").alias("source_file"), F.col("_metadata.file_block_start")
    in_order = (
        text.select(F.col("value").cast("binary"), *place)
        .where(F.col("source_file").isin(list(documents)))
        .mapInArrow(_joined, from_arrow_schema(_SCHEMA))
        .repartition(min(len(documents), _FILES_A_CORE * cores), "source_file")
        .sortWithinPartitions("source_file", "block_start", "place")
        .select("value", "source_file")
    )
    return in_order.mapInArrow(partial(_elements, max_line_bytes=max_line_bytes), LINES)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The pieces of a partition, many in one row, numbered in the order in which Spark reads them."""
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    numbers = count()
    for (file, start), of_block in groupby(rows, itemgetter(1, 2)):
        for text in _texts_together(value for value, _, _ in of_block):
            row = {"value": text, "source_file": file, "block_start": start, "place": next(numbers)}
            yield pa.RecordBatch.from_pylist([row], _SCHEMA)


def _texts_together(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield _END.join(held)
            held, size = [], 0
    if held:
        yield _END.join(held)


def _elements(batches: Iterable[pa.RecordBatch], max_line_bytes: int) -> Iterator[pa.RecordBatch]:
    rows = (
        row
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for file, pieces in groupby(rows, itemgetter(1)):
        yield from elements_as_lines(_texts(value for value, _ in pieces), file, max_line_bytes)


def _texts(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces and the quotation marks between them."""
    yield next(pieces, b"")
    for piece in pieces:
        yield _END + piece
