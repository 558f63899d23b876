"""What was handed over as topologies, for the planners on Spark."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.library.given_topologies import Given, Objects, Paths, SparkFrames
from engine.library.topologies_of_rows import require_topologies
from engine.library.topology_tables_of_frames import OF_TOPOLOGY, require_topology
from plans.tables.column_types import TOPOLOGY


def topologies_on_spark(spark: SparkSession, given: Given) -> Any:
    """`given` as plan_topologies.read_topologies takes it. InputError for a frame with other columns."""
    if isinstance(given, Paths):
        return given.paths
    if isinstance(given, Objects):
        return given.topologies
    if not isinstance(given, SparkFrames):
        return tuple(spark.createDataFrame(table) for table in given)
    if len(given.frames) == 1:
        require_topologies(given.frames[0].columns)
        return given.frames[0]
    topologies, transformations = given.frames
    return topologies, _with_topology_id(transformations)


def _with_topology_id(rows: DataFrame) -> DataFrame:
    require_topology(rows.columns)
    if OF_TOPOLOGY not in rows.columns or TOPOLOGY in rows.columns:
        return rows
    return rows.withColumn(TOPOLOGY, F.xxhash64(OF_TOPOLOGY)).drop(OF_TOPOLOGY)
