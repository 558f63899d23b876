"""Given tables with exactly the columns of TOPOLOGIES and TRANSFORMATIONS, and the folders they lie in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.plans.errors import SchemaError
from penstock.plans.frames.spark_schemas import column_types
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import RESOURCES, type_name
from penstock.plans.topology.canonical_texts import RESOURCES_OF_ZERO
from penstock.plans.topology.find_topology_files import is_delta
from penstock.plans.topology.input_errors import missing_table, unusable_path
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.normalized_tables import (
    WITH_ZEROS,
    integers_too_large,
    is_other_integer,
    require_given_columns,
)
from penstock.plans.topology.on_spark.local_transformations import (
    AS_THEY_ARE,
    MOST_FILES,
    files_of_delta_table,
    files_of_frame,
    files_of_table,
    is_delta_table,
)
from penstock.plans.topology.on_spark.topologies_of_lines import GivenTables
from penstock.plans.topology.operator_rules import DEFAULTS
from penstock.plans.vocabulary import TopologyForm

# Given tables with exactly the columns of TOPOLOGIES and TRANSFORMATIONS, defaults filled in.


def normalized_tables(
    topologies: DataFrame, transformations: DataFrame, job_defaults: JobDefaults = NO_DEFAULTS
) -> GivenTables:
    """Both tables, not validated. Raises SchemaError for other columns than they may have."""
    return GivenTables(
        normalized_topologies(topologies, job_defaults),
        normalized_transformations(transformations),
        files_of_frame(transformations),
    )


def normalized_topologies(topologies: DataFrame, job_defaults: JobDefaults = NO_DEFAULTS) -> DataFrame:
    """TOPOLOGIES columns; only name is required. A missing topology_id is the name's xxhash64.

    What a topology does not set is as `job_defaults` say.
    stream_graph_settings is null: it is of stream graphs.
    """
    missing = {
        "topology_id": F.xxhash64("name"),
        "form": F.lit(str(TopologyForm.TRANSFORMATIONS)),
        "parallelism": F.lit(job_defaults.parallelism),
        "chaining": F.lit(True),
        "config": F.expr("cast(map() AS map<string, string>)"),
    }
    normalized = _normalized(topologies, "topologies", missing)
    normalized = normalized.withColumn("stream_graph_settings", F.lit(None).cast("string"))
    if job_defaults.asked_parallelism is not None:
        asked = F.when(F.col("parallelism") > 0, F.lit(job_defaults.asked_parallelism))
        normalized = normalized.withColumn("parallelism", asked.otherwise(F.col("parallelism")).cast("int"))
    if not job_defaults.config:
        return normalized
    entries = [F.lit(text) for entry in job_defaults.config.items() for text in entry]
    others = F.map_filter(F.create_map(*entries), lambda key, _: ~F.array_contains(F.map_keys("config"), key))
    keys = F.map_keys("config")  # the validation refuses repeated keys, so Spark must not
    each_once = F.size(F.array_distinct(keys)) == F.size(keys)
    return normalized.withColumn(
        "config", F.when(each_once, F.map_concat(others, "config")).otherwise(F.col("config"))
    )


def normalized_transformations(transformations: DataFrame) -> DataFrame:
    """TRANSFORMATIONS columns; topology_id, id, kind and inputs are required."""
    types = {column.name: type_name(column.type) for column in TABLES["transformations"]}
    missing = {name: _literal(value, types[name]) for name, value in DEFAULTS.items()}
    normalized = _normalized(transformations, "transformations", missing)
    resource_columns = [name for name in WITH_ZEROS if name in transformations.columns]
    return (
        normalized.withColumns({name: _with_zeros(F.col(name)) for name in resource_columns})
        if resource_columns
        else normalized
    )


def _literal(value: str | list[Any], kind: str) -> Column:
    """Return a text, or an empty list or map."""
    if isinstance(value, str):
        return F.lit(value)
    return (F.create_map() if kind.startswith("map") else F.array()).cast(kind)


def _with_zeros(resources: Column) -> Column:
    fields = [
        F.coalesce(resources[name], F.lit(0)) if name in RESOURCES_OF_ZERO else resources[name]
        for name in RESOURCES.names
    ]
    named = [field.alias(name) for field, name in zip(fields, RESOURCES.names, strict=True)]
    return F.when(resources.isNotNull(), F.struct(*named))


def _normalized(df: DataFrame, table: str, missing: Mapping[str, Column]) -> DataFrame:
    types = column_types(df)
    require_given_columns(types, table)
    declared = {column.name: type_name(column.type) for column in TABLES[table]}
    df = _with_declared_integers(df, types, declared, table)
    return df.select(
        *(
            _column(column.name, type_name(column.type), types, missing).alias(column.name)
            for column in TABLES[table]
        )
    )


def _with_declared_integers(
    df: DataFrame, types: Mapping[str, str], declared: Mapping[str, str], table: str
) -> DataFrame:
    """`df` with integers as wide as declared; SchemaError if some do not fit, which a Spark job finds out."""
    others = [name for name, kind in types.items() if is_other_integer(kind, declared[name])]
    if not others:
        return df
    lost = [_is_too_large(F.col(name), declared[name]) for name in others]
    counts = df.agg(*(F.count_if(is_lost) for is_lost in lost)).collect()[0]
    for name, count in zip(others, counts, strict=True):
        if count:
            raise integers_too_large(table, name, declared[name])
    return df.withColumns({name: F.col(name).cast(declared[name]) for name in others})


def _is_too_large(column: Column, kind: str) -> Column:
    if kind.startswith("map"):
        column, kind = F.map_values(column), "array<int>"
    if kind.startswith("array"):
        element = kind.removeprefix("array<").removesuffix(">")
        return F.exists(column, lambda item: item.isNotNull() & item.try_cast(element).isNull())
    return column.isNotNull() & column.try_cast(kind).isNull()


def _column(name: str, kind: str, types: Mapping[str, str], missing: Mapping[str, Column]) -> Column:
    default = missing.get(name, F.lit(None)).cast(kind)
    if name not in types:
        return default
    return F.coalesce(F.col(name), default) if name in missing else F.col(name)


# The tables of topologies and transformations in a folder.


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
    files = () if folder is None else files_of_table(Path(folder) / "transformations")
    return given_tables._replace(files=files)


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
