"""The files of a local Delta table that needs nothing of Delta to be read."""

from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.plans.topology.columnar.open_given_table import plain_files
from penstock.plans.topology.input_errors import no_such_path


def files_of_delta_table(table: Path) -> tuple[list[str], StructType] | None:
    """The files of a local Delta table whose rows are just those in its files, and its columns.

    None for others, and where delta-rs cannot read the log: Delta says what is wrong with it.
    """
    from deltalake import DeltaTable

    if "%" in str(table):
        return None  # delta-rs might read it as the escaped name of another folder
    try:
        delta = DeltaTable(table)
        paths = plain_files(table, delta)
        return None if paths is None else (paths, from_arrow_schema(pa.schema(delta.schema())))
    except Exception:
        return None


# Whether a path is a Delta table, also where the session does not know Delta.


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Whether there is a log of Delta's below `path`, on any file system that Spark reads."""
    try:
        log = spark._jvm.org.apache.hadoop.fs.Path(f"{path.rstrip('/')}/_delta_log")  # type: ignore[union-attr]
        files = log.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return bool(files.exists(log))
    except Py4JJavaError:  # unknown file system, or not a path: the reader of files reports it
        return False


# Paths for Spark's readers, which take every path for a glob unless they are told not to.


_GLOB_SIGNS = frozenset("{}[]*?\\")

AS_THEY_ARE = {"__globPaths__": "false"}
"""The option of Spark's file sources by which paths are no globs."""


def paths_of_glob(spark: SparkSession, path: str) -> list[str]:
    """The path itself if it exists, even if it looks like a glob; else the matches of the glob.

    Raises InputError if the glob matches nothing, and what Hadoop raises if the pattern is invalid.
    """
    if _GLOB_SIGNS.isdisjoint(path):
        return [path]
    hadoop_path = spark._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    files = hadoop_path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if files.exists(hadoop_path):
        return [path]
    matches = files.globStatus(hadoop_path)
    if not matches:
        raise no_such_path(files.makeQualified(hadoop_path).toString())
    return [match.getPath().toString() for match in matches]
