"""A caller's topologies in the form that planners on Spark read."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.library.given_topologies import Given, Objects, Paths, SparkFrames, require_topologies
from penstock.engine.library.topology_tables_of_frames import OF_TOPOLOGY, require_topology
from penstock.plans.frames.spark_schemas import column_types
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.require_given_columns import require_given_columns


def topologies_on_spark(spark: SparkSession, source: Given) -> Any:
    """`source` as plan_topologies.read_topologies takes it. InputError for a frame with other columns."""
    if isinstance(source, Paths):
        return source.paths
    if isinstance(source, Objects):
        return source.topologies
    if not isinstance(source, SparkFrames):
        return tuple(spark.createDataFrame(table) for table in source)
    frames = checked_frames(source)
    return frames[0] if len(frames) == 1 else (frames[0], _with_topology_id(frames[1]))


def checked_frames(source: SparkFrames) -> list[DataFrame]:
    """The frames. InputError or SchemaError where one lacks a column, or has one that is not Penstock's."""
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
