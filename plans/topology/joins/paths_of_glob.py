"""Paths for Spark's readers, which take every path for a glob unless they are told not to."""

from pyspark.sql import SparkSession

from penstock.plans.topology.input_errors import no_such_path

_GLOB_SIGNS = frozenset("{}[]*?\\")

AS_THEY_ARE = {"__globPaths__": "false"}
"""The option of Spark's file sources by which paths are no globs."""


def paths_of_glob(spark: SparkSession, path: str) -> list[str]:
    """The path itself if it is there, even if it could be a glob; else what the glob matches.

    Raises InputError if the glob matches nothing, and what Hadoop raises if the pattern is invalid.
    """
    if _GLOB_SIGNS.isdisjoint(path):
        return [path]
    given = spark._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
    files = given.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if files.exists(given):
        return [path]
    matches = files.globStatus(given)
    if not matches:
        raise no_such_path(files.makeQualified(given).toString())
    return [match.getPath().toString() for match in matches]
