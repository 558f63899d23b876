"""Topologies that have more tasks than a plan can hold."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.common.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.plans.frames.counts import MOST_TASKS, TASKS_OF_A_VERTEX
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY


def effective_parallelism() -> Column:
    """The parallelism of a row of job_vertices, 1 where it is decided at run time."""
    return F.when(F.col("parallelism") == NOT_DECIDED, 1).otherwise(F.col("parallelism"))


def bounded_parallelism() -> Column:
    """As effective_parallelism, no greater than Flink allows."""
    return F.least(effective_parallelism(), F.lit(UPPER_BOUND_MAX_PARALLELISM))


def largest_vertices(job_vertices: DataFrame, connected_edges: DataFrame) -> DataFrame:
    """The vertex with the most tasks and inputs of tasks of each topology with too many (plans.most_tasks).

    Columns: see columnar.largest_vertices.
    """
    inputs = connected_edges.groupBy(TOPOLOGY, "target_vertex").agg(F.count(F.lit(1)).alias("inputs"))
    counted = join_local(
        job_vertices.select(
            TOPOLOGY,
            "vertex",
            "name",
            "topological_order",
            bounded_parallelism().cast("bigint").alias("tasks"),
        ),
        rename(inputs, of_vertex="target_vertex", inputs="inputs"),
        {"vertex": "of_vertex"},
        "left",
    ).withColumn("inputs", F.coalesce("inputs", F.lit(0)))
    rows = F.col("tasks") * (F.col("inputs") + 1)
    largest = F.max(
        F.struct(rows.alias("rows"), (-F.col("topological_order")).alias("turn"), "name", "tasks", "inputs")
    )
    return (
        counted.groupBy(TOPOLOGY)
        .agg(F.sum(rows).alias("all"), largest.alias("largest"), F.count(F.lit(1)).alias("vertices"))
        .where(F.col("all") > F.greatest(F.lit(MOST_TASKS), F.col("vertices") * TASKS_OF_A_VERTEX))
        .select(TOPOLOGY, "all", "largest.name", "largest.tasks", "largest.inputs")
    )
