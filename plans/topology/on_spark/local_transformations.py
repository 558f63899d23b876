"""Local files of given transformations that Spark's workers read themselves."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.tables.column_types import type_name
from penstock.plans.topology.find_topology_files import is_delta
from penstock.plans.topology.input_errors import no_such_path
from penstock.plans.topology.open_given_table import plain_files
from penstock.plans.topology.operator_rules import DEFAULTS

# The files of a local Delta table that needs nothing of Delta to be read.


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
    except (
        Py4JJavaError,
        IllegalArgumentException,
    ):  # unknown file system, or not a path: the reader of files reports it
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


class RowGroups(NamedTuple):
    """Row groups of a Parquet file, from `first` up to `end`."""

    path: str
    first: int
    end: int


def files_of_table(table: Path) -> tuple[str, ...]:
    """The files of a local Delta table or folder of Parquet files; none if its rows are not just theirs."""
    try:
        if is_delta(table):
            table_files = files_of_delta_table(table)
            return () if table_files is None else tuple(table_files[0])
        return tuple(_flat_files(table) or ())
    except OSError:  # Spark's reader reports what is wrong
        return ()


def files_of_frame(rows: DataFrame) -> tuple[str, ...]:
    """The local Parquet files of which a DataFrame is all rows and columns; none for any other DataFrame.

    Source: org.apache.spark.sql.execution.datasources.LogicalRelation, HadoopFsRelation.
    """
    from pyarrow import parquet

    from penstock.plans.topology.parse_lines import readable_path

    try:
        plan = rows._jdf.queryExecution().analyzed()
        relation = plan.relation() if plan.getClass().getSimpleName() == "LogicalRelation" else None
        if relation is None or relation.getClass().getSimpleName() != "HadoopFsRelation":
            return ()
        is_parquet = relation.fileFormat().getClass().getSimpleName() == "ParquetFileFormat"
        if not is_parquet or relation.partitionSchema().length():
            return ()
        uris = list(relation.location().inputFiles())
        paths = tuple(map(readable_path, uris))
        if len(paths) > MOST_FILES or len(set(paths)) < len(paths) or not all(map(os.path.isabs, paths)):
            return ()
        columns = sorted(rows.columns)
        read_alike = all(sorted(parquet.read_schema(path).names) == columns for path in paths)
        return paths if read_alike else ()
    except Exception:  # no plan over Spark Connect; what is wrong with a file, Spark's reader reports
        return ()


def local_transformations(paths: Sequence[str]) -> tuple[tuple[RowGroups, ...], ...] | None:
    """The row groups of files of the table `transformations`, about ROWS_OF_A_TASK rows per task.

    None, so that Spark reads the table, if there are no files or more than MOST_FILES, or if these differ in
    their columns or from the table's.
    """
    from pyarrow import parquet

    if not paths or len(paths) > MOST_FILES:
        return None
    try:
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
        if field.name in DEFAULTS and column.null_count:
            default = pa.scalar(DEFAULTS[field.name], field.type)
            rows = rows.set_column(place, field, pc.if_else(column.is_valid(), column, default))
    return rows
