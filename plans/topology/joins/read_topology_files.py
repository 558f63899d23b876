"""Topology files (docs/topology-files.md) as the tables of the topology layer."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.errors import InputError
from penstock.plans.tables.column_types import BOOL, INT, LONG, STR
from penstock.plans.topology.columnar.read_topology_files import (
    LongLine,
    elements_as_lines,
    head_of,
    whole_lines,
)
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
from penstock.plans.topology.joins.local_transformations import AS_THEY_ARE, paths_of_glob
from penstock.plans.topology.joins.parse_remote_files import parse_remote_files
from penstock.plans.topology.joins.topologies_of_lines import (
    TopologyTables,
    parsed_lines,
    topologies_of_lines,
)
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document, may_open_document
from penstock.plans.topology.parse_lines import PARSED, TopologyLine, lines_of, parse_each, readable_path
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

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
            parsed = partial(parse_remote_files, spark, reader, uris, max_line_bytes, job_defaults)
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


def _reason(error: Exception) -> str:
    """The first line of Spark's message, without its Java stack trace."""
    return str(error).strip().splitlines()[0][:300]
