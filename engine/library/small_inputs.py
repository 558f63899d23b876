"""Plan topologies of a Spark session in this process if they are few enough."""

from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
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
    topologies_of_rows,
    topology_tables_of_frames,
)
from penstock.engine.spark.describe_spark_error import exceeds_result_size
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.frames.spark_schemas import column_types, spark_schema
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.normalized_tables import require_given_columns

# Convert a caller's topologies to the form that planners on Spark read.


def topologies_on_spark(spark: SparkSession, source: TopologySource) -> Any:
    """Return `source` for plan_topologies.read_topologies. InputError if a frame has wrong columns."""
    if isinstance(source, Paths):
        return source.paths
    if isinstance(source, Objects):
        return source.topologies
    if not isinstance(source, SparkFrames):
        return tuple(spark.createDataFrame(table) for table in source)
    frames = _checked_frames(source)
    return frames[0] if len(frames) == 1 else (frames[0], _with_topology_id(frames[1]))


def _checked_frames(source: SparkFrames) -> list[DataFrame]:
    """Return the frames. Raises InputError or SchemaError if one lacks a column, or has an unknown one."""
    if len(source.frames) == 1:
        require_topologies(source.frames[0].columns)
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


MOST_TOPOLOGIES = 2_000
MOST_TRANSFORMATIONS = 50_000
MOST_BYTES = 32 << 20
"""Larger inputs are planned in Spark: this process would be the bottleneck."""


def small_input(source: TopologySource) -> Objects | TablesOfTopologies | None:
    """Return `source` for planning in this process, collected if it is DataFrames; None if it is not small.

    Raises InputError or SchemaError for frames with wrong columns.
    """
    match source:
        case Paths():
            return None
        case SparkFrames():
            return _read(source)
        case Objects():
            return source if _is_small(source) else None
        case TablesOfTopologies():
            few = len(source.topologies) <= MOST_TOPOLOGIES
            return source if few and len(source.transformations) <= MOST_TRANSFORMATIONS else None


def _is_small(objects: Objects) -> bool:
    size = 0
    for topology in objects.topologies:
        size += len(topology) // 500 if isinstance(topology, bytes) else _rows(topology)
    return len(objects.topologies) <= MOST_TOPOLOGIES and size <= MOST_TRANSFORMATIONS


def _rows(topology: Any) -> int:
    rows = topology.get("transformations") or topology.get("stream_graph") or ()
    return len(rows) if isinstance(rows, list | tuple | dict) else 1


def _read(frames: SparkFrames) -> Objects | TablesOfTopologies | None:
    tables = []
    for frame, most in zip(_checked_frames(frames), (MOST_TOPOLOGIES, MOST_TRANSFORMATIONS), strict=False):
        try:
            table = frame.limit(most + 1).toArrow()
        except (Py4JError, PySparkException) as error:
            if not exceeds_result_size(error):
                raise
            return None
        if len(table) > most or table.nbytes > MOST_BYTES:
            return None
        tables.append(table)
    return _as_topologies(tables)


def read_frames(frames: SparkFrames) -> Objects | TablesOfTopologies:
    """Collect all rows of DataFrames, to plan them in this process.

    Same errors as `small_input`, and NotEnoughMemoryError if Spark refuses to collect so many.
    """
    try:
        return _as_topologies([frame.toArrow() for frame in _checked_frames(frames)])
    except (Py4JError, PySparkException) as error:
        if not exceeds_result_size(error):
            raise
        raise NotEnoughMemoryError(
            "planning in this process takes all rows of the DataFrames, which are more than "
            "spark.driver.maxResultSize allows",
            "raise it where Spark's driver starts, or plan in a session of classic Spark",
        ) from None


def _as_topologies(tables: list[pa.Table]) -> Objects | TablesOfTopologies:
    if len(tables) == 1:
        return Objects(topologies_of_rows(tables[0]))
    return TablesOfTopologies(*topology_tables_of_frames(*tables))


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
