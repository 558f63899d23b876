"""The tables of topologies and transformations in a folder."""

from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.plans.errors import SchemaError
from penstock.plans.topology.columnar.open_given_table import is_delta
from penstock.plans.topology.input_errors import missing_table, unusable_path
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.joins.local_transformations import (
    AS_THEY_ARE,
    MOST_FILES,
    files_of_delta_table,
    is_delta_table,
)
from penstock.plans.topology.joins.normalized_tables import normalized_tables
from penstock.plans.topology.joins.topologies_of_lines import GivenTables

_HIDDEN = ("_", ".")
"""What names of files begin with that Spark's reader of Parquet files leaves out."""


def load_topology_folder(
    spark: SparkSession, path: str, job_defaults: JobDefaults = NO_DEFAULTS
) -> GivenTables:
    """The tables `topologies` and `transformations` in a folder, Delta or Parquet, not validated.

    Raises InputError if one of them is missing or does not have its declared columns.
    """
    folder = _local_folder(spark, path)
    tables = []
    for name in ("topologies", "transformations"):
        table = f"{path.rstrip('/')}/{name}"
        try:
            local = None if folder is None else _read_plain_files(spark, Path(folder) / name)
            tables.append(_read_folder(spark, table) if local is None else local)
        except AnalysisException as e:
            raise missing_table(table, str(e).splitlines()[0][:300]) from None
    try:
        topologies, transformations = tables
        given_tables = normalized_tables(topologies, transformations, job_defaults)
    except SchemaError as error:
        raise unusable_path(path, error.message) from None
    return given_tables._replace(folder=folder)


def _read_folder(spark: SparkSession, table: str) -> DataFrame:
    kind = "delta" if is_delta_table(spark, table) else "parquet"
    options = AS_THEY_ARE if kind == "parquet" else {}
    return spark.read.format(kind).options(**options).load(table)


def _read_plain_files(spark: SparkSession, table: Path) -> DataFrame | None:
    """A local Delta table whose rows are just those in its files: Delta would need some Spark jobs for it."""
    table_files = files_of_delta_table(table) if is_delta(table) else None
    if table_files is None:
        return None
    paths, columns = table_files
    if len(paths) > MOST_FILES or any(Path(path).name.startswith(_HIDDEN) for path in paths):
        return None
    rows = spark.read.schema(columns).options(**AS_THEY_ARE)
    return rows.parquet(*(f"file:{path}" for path in paths))


def _local_folder(spark: SparkSession, path: str) -> str | None:
    """The folder that Spark takes `path` for; None if it is on another file system."""
    try:
        hadoop_path = spark._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
        files = hadoop_path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        uri = files.makeQualified(hadoop_path).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None
    except Py4JJavaError:  # unknown file system, or not a path
        return None
