"""Topology files (docs/topology-files.md) as the tables of the topology layer."""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from itertools import chain, count, groupby
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.errors import InputError
from penstock.plans.printable import without_java_classes
from penstock.plans.tables.column_types import BOOL, INT, LONG, STR
from penstock.plans.topology.input_errors import (
    MAX_LINE_BYTES,
    incomplete_gzip,
    no_files_given,
    no_such_path,
    no_topologies,
    unreadable_file,
    unusable_path,
)
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document, may_open_document
from penstock.plans.topology.on_spark.local_transformations import AS_THEY_ARE, paths_of_glob
from penstock.plans.topology.on_spark.topologies_of_lines import (
    TopologyTables,
    parsed_lines,
    topologies_of_lines,
)
from penstock.plans.topology.parse_lines import (
    LINES,
    PARSED,
    TopologyLine,
    lines_of,
    parse_each,
    readable_path,
)
from penstock.plans.topology.read_topology_files import (
    LongLine,
    elements_as_lines,
    head_of,
    whole_lines,
)
from penstock.plans.topology.unpacked_texts import (
    BLOCK_BYTES,
    CODECS,
    broken_file,
    texts_of_file,
    unpacked_texts,
)

# Topology files on remote file systems, read by Spark, of which no line is held if it is too long.
#
# Hadoop's reader skips lines that are longer than its limit, but cuts off the last one of its part of the
# file.
# With a limit above the size of a part (spark.sql.files.maxPartitionBytes), every line that long is a last
# one.
# Source: org.apache.hadoop.mapreduce.lib.input.LineRecordReader.


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


def _parse_remote_files(
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
        lines = _remote_lines(text.where(~path.isin(list(documents))) if documents else text, max_line_bytes)
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


def _remote_lines(text: DataFrame, max_line_bytes: int) -> DataFrame:
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
_END_OF_LINE = PIECE_ENDS_AT.encode()
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
    return in_order.mapInArrow(partial(_remote_elements, max_line_bytes=max_line_bytes), LINES)


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
            yield _END_OF_LINE.join(held)
            held, size = [], 0
    if held:
        yield _END_OF_LINE.join(held)


def _remote_elements(batches: Iterable[pa.RecordBatch], max_line_bytes: int) -> Iterator[pa.RecordBatch]:
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
        yield _END_OF_LINE + piece


# Topology lines of local files, read and parsed in Spark's Python workers.
#
# Spark's own reader of text holds a line whole, however long it is.


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


def _splits_of_files(spark: SparkSession, files: Sequence[str]) -> DataFrame:
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


_FILE_IN_MESSAGE = re.compile(r"file ((?:\w+:)?/\S+?)\.?\s")
_INPUT_ERROR_IN_MESSAGE = re.compile(r"InputError: (?P<message>.+)\n  hint: (?P<hint>.+)")
_GZIP_SIGNS = (
    "gzip",
    "zlib",
    "ZipException",
    "EOFException",
    "end of input stream",
    "header check",
    "data check",
)


def read_topology_files(
    spark: SparkSession,
    paths: Sequence[str],
    max_line_bytes: int = MAX_LINE_BYTES,
    piped: Mapping[str, pa.Table] | None = None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> TopologyTables:
    """JSON lines and JSON documents in files, `.gz` files, directories (with those below) and globs.

    One parse of every line, in one Spark job that runs here; the tables are derived from what it keeps.
    Workers read local files themselves; Spark reads those on remote file systems (parse_remote_files), and
    documents among them take a second job. Bad lines and topologies, and lines or elements of documents of
    more than `max_line_bytes`, are rows of `rejected` by file and line. A path that exists is taken
    literally, even if it looks like a glob. `piped`: LINES of those paths that are FIFOs, which Spark cannot
    read. `job_defaults` apply where topologies set nothing themselves.

    Raises InputError if a path matches nothing, cannot be read to its end or if there is no line at all.
    """
    if not paths:
        raise no_files_given()
    piped = piped or {}
    # In one partition each, since its lines are counted as one block.
    parts = [
        parsed_lines(spark.createDataFrame(lines).coalesce(1), max_line_bytes, job_defaults)
        for lines in piped.values()
    ]
    read_documents = None
    if files := [path for path in paths if path not in piped]:
        reader = _reader(spark, files)
        uris = reader().inputFiles()
        if can_be_split(uris):
            parts.append(_parsed_splits(spark, list(filter(_holds_data, uris)), max_line_bytes, job_defaults))
        else:
            parsed = partial(_parse_remote_files, spark, reader, uris, max_line_bytes, job_defaults)
            of_pipes = parts
            parts = [*of_pipes, *parsed()]

            def read_documents(documents: Sequence[str]) -> DataFrame:
                return reduce(DataFrame.unionByName, [*of_pipes, *parsed(documents)])

    tables = topologies_of_lines(reduce(DataFrame.unionByName, parts), _run, read_documents)
    if tables.inputs == 0:
        for kept in tables.persisted:
            kept.unpersist()
        raise no_topologies(paths)
    return tables


def _holds_data(file: str) -> bool:
    """Whether Spark reads a file that it lists. Source: Spark's PartitioningAwareFileIndex.isDataPath."""
    name = file.rpartition("/")[2]
    return not name.startswith(".") and not (name.startswith("_") and "=" not in name)


def _parsed_splits(
    spark: SparkSession, files: Sequence[str], max_line_bytes: int, job_defaults: JobDefaults
) -> DataFrame:
    """The content of local files as PARSED."""
    try:
        splits = _splits_of_files(spark, files)
    except OSError as error:
        raise unreadable_file(str(error.filename), str(error.strerror)) from None
    parse = partial(parse_splits, max_line_bytes=max_line_bytes, job_defaults=job_defaults)
    return splits.mapInArrow(parse, from_arrow_schema(PARSED))


def _reader(spark: SparkSession, paths: Sequence[str]) -> Callable[..., DataFrame]:
    """Spark's reader of text, in lines, over the files that `paths` are or match; options are arguments."""
    as_they_are = [uri for path in paths for uri in _paths(spark, path)]

    def read(**options: str) -> DataFrame:
        reader = (
            spark.read.option("lineSep", "\n")
            .option("recursiveFileLookup", "true")
            .option("ignoreCorruptFiles", "false")
            .option("ignoreMissingFiles", "false")
            .options(**AS_THEY_ARE)
            .options(**options)
        )
        with _errors_of(paths):
            return reader.text(as_they_are)

    return read


def _paths(spark: SparkSession, path: str) -> list[str]:
    with _errors_of([path]):
        return paths_of_glob(spark, path)


@contextmanager
def _errors_of(paths: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except AnalysisException as e:
        missing_path = (e.getMessageParameters() or {}).get("path", ", ".join(paths))
        raise no_such_path(missing_path) from None
    except (PySparkException, Py4JJavaError) as e:
        raise unusable_path(", ".join(paths), _reason(e)) from None


def _run(job: Callable[[], None]) -> None:
    """Run the parse. What a file makes fail is an InputError; errors of workers and memory stay theirs."""
    try:
        job()
    except PythonException as e:
        said = _INPUT_ERROR_IN_MESSAGE.search(str(e))
        if said is None:
            raise
        raise InputError(said["message"], said["hint"]) from None
    except (PySparkException, Py4JJavaError) as e:
        if "OutOfMemoryError" in str(e):
            raise
        named = _FILE_IN_MESSAGE.search(str(e))
        file = readable_path(named.group(1)) if named else "a topology file"
        broken_gzip = file.endswith(".gz") and any(sign in str(e) for sign in _GZIP_SIGNS)
        raise (incomplete_gzip(file) if broken_gzip else unreadable_file(file, _reason(e))) from None


def _reason(error: PySparkException | Py4JJavaError) -> str:
    """The first line of the innermost message, without classes and stacks of Java."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = cause.toString()
    return without_java_classes(text.strip().splitlines()[0])[:300]
