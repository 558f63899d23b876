"""Topologies of a Spark session as planners read them, there or here, and plans as its DataFrames."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from penstock.engine.library.given_topologies import (
    OF_TOPOLOGY,
    Objects,
    Paths,
    SparkFrames,
    TablesOfTopologies,
    TopologySource,
    require_topologies,
    require_topology,
    topology_tables_of_frames,
)
from penstock.engine.planning.choose_planner import GivenToSpark
from penstock.engine.planning.planning_settings import interpreted
from penstock.engine.spark.describe_spark_error import exceeds_result_size
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.frames.spark_schemas import column_types, spark_schema
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.tables.plain_columns import require_unique_columns
from penstock.plans.topology.lines_batch import TopologyTexts
from penstock.plans.topology.normalized_tables import require_given_columns
from penstock.plans.topology.on_spark.topologies_of_lines import GivenLines, GivenTables, texts_of_rows

if TYPE_CHECKING:
    from penstock.engine.planning.plan_in_workers import RowCounts

# Convert a caller's topologies to the form that planners on Spark read.


def topologies_on_spark(spark: SparkSession, source: TopologySource) -> Any:
    """Return `source` for plan_topologies.read_topologies. InputError if a frame has wrong columns."""
    if isinstance(source, Paths):
        return source.paths
    if isinstance(source, Objects):
        return source.topologies
    if isinstance(source, TablesOfTopologies):
        return tuple(spark.createDataFrame(table) for table in source)
    assert isinstance(source, SparkFrames)
    frames = _checked_frames(source)
    return frames[0] if len(frames) == 1 else (frames[0], _with_topology_id(frames[1]))


def _checked_frames(source: SparkFrames) -> list[DataFrame]:
    """Return the frames. Raises InputError or SchemaError if one lacks a column, or has an unknown one."""
    if len(source.frames) == 1:
        require_topologies(source.frames[0].columns)
        require_unique_columns(source.frames[0].columns, "topologies")
        return source.frames
    topologies, transformations = source.frames
    require_topology(transformations.columns)
    require_given_columns(column_types(topologies), "topologies")
    named = OF_TOPOLOGY in transformations.columns and TOPOLOGY not in transformations.columns
    types = column_types(transformations.drop(OF_TOPOLOGY) if named else transformations)
    require_given_columns({TOPOLOGY: "bigint", **types} if named else types, "transformations")
    return source.frames


def _with_topology_id(rows: DataFrame) -> DataFrame:
    if OF_TOPOLOGY not in rows.columns or TOPOLOGY in rows.columns:
        return rows
    return rows.withColumn(TOPOLOGY, F.xxhash64(OF_TOPOLOGY)).drop(OF_TOPOLOGY)


PROBED_TOPOLOGIES = 2_000
PROBED_TRANSFORMATIONS = 50_000
PROBED_BYTES = 32 << 20
"""Rows of DataFrames are collected up to these numbers before they are counted: so few are planned in this
process in less time than Spark takes to count them."""


def few_rows(frames: SparkFrames) -> TopologyTexts | TablesOfTopologies | None:
    """Return the rows of DataFrames, for planning in this process; None if there are more than are probed.

    Raises InputError or SchemaError for frames with wrong columns.
    """
    tables = []
    most_rows = (PROBED_TOPOLOGIES, PROBED_TRANSFORMATIONS)
    with interpreted(frames.frames[0].sparkSession):
        for frame, most in zip(_checked_frames(frames), most_rows, strict=False):
            table = _rows_here(_as_collected(frames, frame.limit(most + 1)))
            if table is None or len(table) > most or table.nbytes > PROBED_BYTES:
                return None
            tables.append(table)
    return _as_topologies(tables)


def read_frames(frames: SparkFrames) -> TopologyTexts | TablesOfTopologies:
    """Collect all rows of DataFrames, to plan them in this process.

    Same errors as `few_rows`, and NotEnoughMemoryError if Spark refuses to collect that many.
    """
    tables = [_rows_here(_as_collected(frames, frame)) for frame in _checked_frames(frames)]
    known = [table for table in tables if table is not None]
    if len(known) < len(tables):
        raise NotEnoughMemoryError(
            "planning in this process takes all rows of the DataFrames, which are more than "
            "spark.driver.maxResultSize allows",
            "raise it where Spark's driver starts, or plan in Spark's workers (planner='workers')",
        )
    return _as_topologies(known)


def collected(read: GivenLines | GivenTables) -> TopologyTexts | TablesOfTopologies | None:
    """Collect topologies that plan_topologies.read_topologies returned, to plan them in this process.

    None if Spark refuses to collect that many.
    """
    if isinstance(read, GivenTables):
        topologies = _rows_here(read.topologies)
        transformations = _rows_of_files(read.files) or _rows_here(read.transformations)
        known = topologies is not None and transformations is not None
        return TablesOfTopologies(topologies, transformations) if known else None
    texts = _rows_here(read.lines.select(*_TEXTS))
    if texts is None:
        return None
    for frame in read.persisted:
        frame.unpersist()
    return TopologyTexts(texts)


def _rows_here(frame: DataFrame) -> pa.Table | None:
    """Collect rows; None if they are more than spark.driver.maxResultSize allows."""
    try:
        return frame.toArrow()
    except (Py4JError, PySparkException) as error:
        if not exceeds_result_size(error):
            raise
        return None


def _rows_of_files(paths: tuple[str, ...]) -> pa.Table | None:
    if not paths:
        return None
    try:
        return pa.concat_tables(map(parquet.read_table, paths), promote_options="default")
    except (OSError, pa.ArrowException):  # Spark's reader reports what is wrong
        return None


_TEXTS = ("key", "ordinal", "value", "problem")


def _as_collected(frames: SparkFrames, frame: DataFrame) -> DataFrame:
    # As JSON, which Spark's workers read, too: both ways give the same plan.
    return texts_of_rows(frame).select(*_TEXTS) if len(frames.frames) == 1 else frame


def _as_topologies(tables: list[pa.Table]) -> TopologyTexts | TablesOfTopologies:
    if len(tables) == 1:
        return TopologyTexts(tables[0])
    return TablesOfTopologies(*topology_tables_of_frames(*tables))


def size_here(source: Objects | TablesOfTopologies) -> GivenToSpark:
    """Return the size of topologies that this process holds."""
    if isinstance(source, TablesOfTopologies):
        return GivenToSpark(len(source.transformations), len(source.topologies))
    rows = sum(
        len(topology) // 500 if isinstance(topology, bytes) else _rows(topology)
        for topology in source.topologies
    )
    return GivenToSpark(rows, len(source.topologies))


def _rows(topology: Any) -> int:
    rows = topology.get("transformations") or topology.get("stream_graph") or ()
    return len(rows) if isinstance(rows, list | tuple | dict) else 1


def size_on_spark(read: GivenLines | GivenTables, counts: "RowCounts") -> GivenToSpark:
    """Return the size of topologies in DataFrames that were counted."""
    if isinstance(read, GivenLines):
        return GivenToSpark(counts.rows, counts.inputs or 0, read.size_bytes)
    bytes_ = 0 if read.files else counts.rows * _BYTES_OF_A_ROW
    return GivenToSpark(counts.rows, counts.inputs or 0, bytes_)


_BYTES_OF_A_ROW = 300
"""Of a table of transformations, as Arrow."""


def dataframe_of_table(spark: Any, name: str, table: pa.Table) -> Any:
    """Return a table of a plan as a DataFrame of `spark`, with the declared columns, in one partition."""
    schema = spark_schema(name)
    # PySpark casts, and rejects null for a struct whose fields are declared as not null.
    rows = spark.createDataFrame(table, _with_nulls(schema)).coalesce(1)
    return rows.select(*(rows[field.name].alias(field.name, metadata=field.metadata) for field in schema))


def _with_nulls(kind: Any) -> Any:
    """Return the type with nullable values at any depth."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _with_nulls(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_with_nulls(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _with_nulls(kind.valueType))
    return kind
