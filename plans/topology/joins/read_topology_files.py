"""Topology files (docs/topology-files.md) as the tables of the topology layer."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.errors import InputError
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
from penstock.plans.topology.joins.files_of_delta_table import AS_THEY_ARE, paths_of_glob
from penstock.plans.topology.joins.parse_remote_files import parse_remote_files
from penstock.plans.topology.joins.parse_splits import can_be_split, parse_splits, splits_of_files
from penstock.plans.topology.joins.topologies_of_lines import parsed_lines, topologies_of_lines
from penstock.plans.topology.joins.topology_tables import TopologyTables
from penstock.plans.topology.parse_lines import readable_path
from penstock.plans.topology.parsed_batches import PARSED

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
        splits = splits_of_files(spark, files)
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
