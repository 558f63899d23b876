"""How much there is to plan: rows of all topologies, and of the largest one."""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.tables.column_types import TOPOLOGY
from plans.topology.joins.topology_tables import GivenTables, TopologyTables


class Rows(NamedTuple):
    """Transformations and given stream nodes of all topologies, and of the largest one; tasks of the one that
    has most, if nothing is chained."""

    rows: int
    largest: int
    most_tasks: int


def count_rows(given: TopologyTables | GivenTables) -> Rows:
    """Counted by one query."""
    defaults = given.topologies.select(TOPOLOGY, F.col("parallelism").cast("long").alias("default"))
    tasks = F.coalesce("tasks", F.lit(0)) + F.col("unset") * F.coalesce("default", F.lit(1))
    found = (
        sizes_of_topologies(given)
        .join(defaults, TOPOLOGY, "left")
        .agg(F.sum("size").alias("rows"), F.max("size").alias("largest"), F.max(tasks).alias("most_tasks"))
    )
    row = found.collect()[0]
    return Rows(row["rows"] or 0, row["largest"] or 0, row["most_tasks"] or 0)


def sizes_of_topologies(given: TopologyTables | GivenTables) -> DataFrame:
    """One row per topology: size (transformations or given stream nodes), tasks, unset (a parallelism is)."""
    rows = given.transformations.select(TOPOLOGY, "parallelism")
    if isinstance(given, TopologyTables):
        rows = rows.unionByName(given.stream_nodes.select(TOPOLOGY, "parallelism"))
    return rows.groupBy(TOPOLOGY).agg(
        F.count(F.lit(1)).alias("size"),
        F.sum(F.col("parallelism").cast("long")).alias("tasks"),
        F.count_if(F.col("parallelism").isNull()).alias("unset"),
    )
