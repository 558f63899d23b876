"""Local files of given transformations that Spark's workers read themselves."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.plans.errors import SchemaError
from penstock.plans.frames.spark_schemas import column_types
from penstock.plans.tables import TABLES, TRANSFORMATIONS
from penstock.plans.tables.column_types import RESOURCES, type_name
from penstock.plans.topology.columnar.canonical_texts import RESOURCES_OF_ZERO
from penstock.plans.topology.columnar.normalized_tables import (
    integers_too_large,
    is_delta,
    is_other_integer,
    plain_files,
    require_given_columns,
)
from penstock.plans.topology.input_errors import missing_table, no_such_path, unusable_path
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.joins.topologies_of_lines import GivenTables
from penstock.plans.vocabulary import TopologyForm

# The files of a local Delta table that needs nothing of Delta to be read.


def _files_of_delta_table(table: Path) -> tuple[list[str], StructType] | None:
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


ROWS_OF_A_TASK = 200_000
"""About how many rows one task reads."""

MOST_FILES = 1_000
"""More are for Spark to read: here they are opened one after the other first."""

_ROWS_OF_A_BATCH = 2**15
_PLAIN = pa.schema([field.remove_metadata().with_nullable(True) for field in TRANSFORMATIONS])
_DEFAULTS = {"name": "", "inputs": [], "managed_memory": [], "slot_scope": []}
"""As plans.topology.joins.normalized_tables has them."""


class RowGroups(NamedTuple):
    """Row groups of a Parquet file, from `first` up to `end`."""

    path: str
    first: int
    end: int


def local_transformations(folder: str) -> tuple[tuple[RowGroups, ...], ...] | None:
    """The row groups of the table `transformations` in a local folder, about ROWS_OF_A_TASK rows per task.

    None, so that Spark reads the table, if it has more than MOST_FILES files, if these differ in their
    columns, or if its rows are not just those in the files.
    """
    from pyarrow import parquet

    table = Path(folder) / "transformations"
    try:
        if is_delta(table):
            table_files = _files_of_delta_table(table)
            paths = None if table_files is None else table_files[0]
        else:
            paths = _flat_files(table)
        if paths is None or len(paths) > MOST_FILES:
            return None
        ranges: list[tuple[RowGroups, int]] = []
        columns: set[tuple[str, ...]] = set()
        for path in paths:
            file = parquet.ParquetFile(path)
            if any(
                type_name(_PLAIN.field(field.name).type) != type_name(field.type)
                for field in file.schema_arrow
            ):
                return None
            columns.add(tuple(sorted(file.schema_arrow.names)))
            ranges += _ranges(path, [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    except Exception:  # Spark's reader reports what is wrong
        return None
    return tuple(_tasks(ranges)) if len(columns) == 1 else None


def read_row_groups(
    tasks: Sequence[Sequence[RowGroups]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow over numbers into `tasks` (column id); gives rows of TRANSFORMATIONS.

    Columns that a file lacks, and nulls in columns with a default, are filled in.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset

        for batch in batches:
            numbers = batch.column("id").to_pylist()
            for path, first, end in (of_task for number in numbers for of_task in tasks[number]):
                file = next(iter(dataset.dataset([path], _PLAIN, format="parquet").get_fragments()))
                row_groups = file.subset(row_group_ids=list(range(first, end)))
                for rows in row_groups.to_batches(_PLAIN, batch_size=_ROWS_OF_A_BATCH, use_threads=False):
                    yield _filled(rows)

    return read


def _flat_files(table: Path) -> list[str] | None:
    """The files of a folder of Parquet files; None if something else is in it."""
    names = [path for path in table.iterdir() if not path.name.startswith((".", "_"))]
    if all(path.is_file() and path.suffix == ".parquet" for path in names):
        return sorted(map(str, names))
    return None


def _ranges(path: str, rows: Sequence[int]) -> Iterator[tuple[RowGroups, int]]:
    """Ranges of a file's row groups, with their rows."""
    first = held = 0
    for place, row_count in enumerate(rows):
        held += row_count
        if held >= ROWS_OF_A_TASK or place + 1 == len(rows):
            yield RowGroups(path, first, place + 1), held
            first, held = place + 1, 0


def _tasks(ranges: Iterable[tuple[RowGroups, int]]) -> Iterator[tuple[RowGroups, ...]]:
    """Ranges together: files may be small."""
    together: list[RowGroups] = []
    held = 0
    for row_groups, rows in ranges:
        if together and held + rows > ROWS_OF_A_TASK:
            yield tuple(together)
            together, held = [], 0
        together.append(row_groups)
        held += rows
    if together:
        yield tuple(together)


def _filled(rows: pa.RecordBatch) -> pa.RecordBatch:
    for place, field in enumerate(_PLAIN):
        column = rows.column(place)
        if field.name in _DEFAULTS and column.null_count:
            default = pa.scalar(_DEFAULTS[field.name], field.type)
            rows = rows.set_column(place, field, pc.if_else(column.is_valid(), column, default))
    return rows


# Given tables with exactly the columns of TOPOLOGIES and TRANSFORMATIONS, defaults filled in.


_RESOURCES = ("min_resources", "preferred_resources")


def normalized_tables(
    topologies: DataFrame, transformations: DataFrame, job_defaults: JobDefaults = NO_DEFAULTS
) -> GivenTables:
    """Both tables, not validated. Raises SchemaError for other columns than they may have."""
    return GivenTables(
        normalized_topologies(topologies, job_defaults), normalized_transformations(transformations)
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
    missing = {
        "name": F.lit(""),
        "inputs": F.expr("cast(array() AS array<int>)"),
        "managed_memory": F.expr("cast(map() AS map<string, int>)"),
        "slot_scope": F.expr("cast(array() AS array<string>)"),
    }
    normalized = _normalized(transformations, "transformations", missing)
    resource_columns = [name for name in _RESOURCES if name in transformations.columns]
    return (
        normalized.withColumns({name: _with_zeros(F.col(name)) for name in resource_columns})
        if resource_columns
        else normalized
    )


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
    return given_tables._replace(folder=folder)


def _read_folder(spark: SparkSession, table: str) -> DataFrame:
    kind = "delta" if is_delta_table(spark, table) else "parquet"
    options = AS_THEY_ARE if kind == "parquet" else {}
    return spark.read.format(kind).options(**options).load(table)


def _read_plain_files(spark: SparkSession, table: Path) -> DataFrame | None:
    """A local Delta table whose rows are just those in its files: Delta would need some Spark jobs for it."""
    table_files = _files_of_delta_table(table) if is_delta(table) else None
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
