"""Topology files (SPEC section 1) as the tables of the topology layer."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.topology.input_errors import (
    incomplete_gzip,
    no_files_given,
    no_such_path,
    no_topologies,
    unreadable_file,
    unusable_path,
)
from plans.topology.joins.paths_of_glob import AS_THEY_ARE, paths_of_glob
from plans.topology.joins.topologies_of_lines import topologies_of_lines
from plans.topology.joins.topology_tables import TopologyTables
from plans.topology.line_too_long import MAX_LINE_BYTES
from plans.topology.parse_lines import readable_path

_FILE_IN_MESSAGE = re.compile(r"file ((?:\w+:)?/\S+?)\.?\s")
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
) -> TopologyTables:
    """JSON lines and JSON documents in files, `.gz` files, directories (with those below) and globs.

    One parse of every line, in one Spark job that runs here, and one more if there are documents; the tables
    are derived from what it keeps. Bad lines and topologies, and lines or elements of documents of more than
    `max_line_bytes`, are rows of `rejected` by file and line. A
    path that is there is that path, even if it could be a glob. `piped`: LINES of those of the paths that
    Spark cannot read, since they are FIFOs.
    Raises InputError if a path matches nothing, cannot be read to its end or if there is no line at all.
    """
    if not paths:
        raise no_files_given()
    piped = piped or {}
    # In one partition each, since its lines are counted as one block.
    parts = [spark.createDataFrame(lines).coalesce(1) for lines in piped.values()]
    files = [path for path in paths if path not in piped]
    lines = reduce(DataFrame.unionByName, [*parts, _lines(spark, files)] if files else parts)
    tables = topologies_of_lines(lines, _run, max_line_bytes, may_be_documents=True)
    if tables.inputs == 0:
        for kept in tables.persisted:
            kept.unpersist()
        raise no_topologies(paths)
    return tables


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    reader = (
        spark.read.option("lineSep", "\n")
        .option("recursiveFileLookup", "true")
        .option("ignoreCorruptFiles", "false")
        .option("ignoreMissingFiles", "false")
        .options(**AS_THEY_ARE)
    )
    try:
        text = reader.text([found for path in paths for found in paths_of_glob(spark, path)])
    except AnalysisException as e:
        found = (e.getMessageParameters() or {}).get("path", ", ".join(paths))
        raise no_such_path(found) from None
    except (PySparkException, Py4JJavaError) as e:
        raise unusable_path(", ".join(paths), _reason(e)) from None
    return text.select(
        F.col("value").cast("binary").alias("value"),
        F.col("_metadata.file_path").alias("source_file"),
        F.col("_metadata.file_block_start").alias("block_start"),
        F.lit(None).cast("long").alias("ordinal"),
        F.lit(None).cast("string").alias("problem"),
        F.lit(None).cast("long").alias("line"),
        F.lit(None).cast("long").alias("too_long_bytes"),
    )


def _run(job: Callable[[], None]) -> None:
    """Run the parse. What a file makes fail is an InputError; errors of workers and memory stay theirs."""
    try:
        job()
    except PythonException:
        raise
    except (PySparkException, Py4JJavaError) as e:
        if "OutOfMemoryError" in str(e):
            raise
        named = _FILE_IN_MESSAGE.search(str(e))
        file = readable_path(named.group(1)) if named else "a topology file"
        broken_gzip = file.endswith(".gz") and any(sign in str(e) for sign in _GZIP_SIGNS)
        raise (incomplete_gzip(file) if broken_gzip else unreadable_file(file, _reason(e))) from None


def _reason(error: Exception) -> str:
    """The first line of what Spark says, without its Java stack trace."""
    return str(error).strip().splitlines()[0][:300]
