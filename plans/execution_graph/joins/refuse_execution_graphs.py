"""Topologies that Flink refuses while it makes the ExecutionGraph."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.common.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE
from penstock.plans.execution_graph.columnar.refuse_execution_graphs import (
    ABOVE_MAX_PARALLELISM,
    BOUNDS,
    CO_LOCATION,
    JOB_EXCEPTION,
    MAX_PARALLELISM,
    NOT_IN_SAME_REGION,
    NOT_IN_VALID_BOUNDS,
    NOT_WITHIN_BOUNDS,
    TOO_MANY,
)
from penstock.plans.frames.arrays import INPUTS_EACH, MOST_TASKS, OF_ALL, TASKS_OF_A_VERTEX, TOO_MANY_TASKS
from penstock.plans.frames.spark_frames import first_refusals, join_local, refusals, rename
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

# Topologies that have more tasks than a plan can hold.


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


def refuse_execution_graphs(
    job_vertices: DataFrame,
    execution_job_vertices: DataFrame,
    connected_edges: DataFrame,
    task_regions: DataFrame,
) -> DataFrame:
    """One row per refused topology (see first_refusals): Flink's checks in their order, then limit_tasks.

    In: job_vertices, execution_job_vertices, connected_edges, task_regions (see find_pipelined_regions).

    Source: KeyGroupRangeAssignment.checkParallelismPreconditions, VertexParallelismInformation,
    ExecutionJobVertex, DefaultExecutionTopology.ensureCoLocatedVerticesInSameRegion.

    Example: tests/passes/fixtures/execution_graph_refusals.txt.
    """
    return first_refusals(
        [
            _out_of_bounds(job_vertices),
            _above_max_parallelism(job_vertices, execution_job_vertices),
            _split_co_locations(job_vertices, task_regions),
            _too_many_tasks(job_vertices, connected_edges),
        ]
    )


def _out_of_bounds(job_vertices: DataFrame) -> DataFrame:
    """Flink looks at parallelism in creation order, and first derives the max parallelism from it."""
    rows = job_vertices.filter(effective_parallelism() > UPPER_BOUND_MAX_PARALLELISM)
    message = F.when(
        F.col("max_parallelism") == -1,
        F.concat(F.lit(NOT_WITHIN_BOUNDS), "parallelism"),
    ).otherwise(F.concat(F.lit(NOT_IN_VALID_BOUNDS), "parallelism"))
    order = [F.lit(BOUNDS), F.col("creation_order")]
    return refusals(rows, Layer.EXECUTION_GRAPH, order, ILLEGAL_ARGUMENT, message, _vertex())


def _above_max_parallelism(job_vertices: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    effective = execution_job_vertices.select(
        TOPOLOGY,
        F.col("vertex").alias("of_vertex"),
        F.col("parallelism").alias("subtasks"),
        F.col("max_parallelism").alias("effective_max"),
    )
    rows = join_local(job_vertices, effective, {"vertex": "of_vertex"}).filter("subtasks > effective_max")
    before, of_parallelism, of_max, after = map(F.lit, ABOVE_MAX_PARALLELISM)
    message = F.concat(before, "name", of_parallelism, "subtasks", of_max, "effective_max", after)
    order = [F.lit(MAX_PARALLELISM), F.col("topological_order")]
    return refusals(rows, Layer.EXECUTION_GRAPH, order, JOB_EXCEPTION, message, _vertex())


def _split_co_locations(job_vertices: DataFrame, task_regions: DataFrame) -> DataFrame:
    """Subtasks of one index of a co-location group have to be in one region."""
    located = job_vertices.filter(F.col("co_location_group").isNotNull()).select(
        TOPOLOGY, F.col("vertex").alias("of_vertex"), "co_location_group", "co_location_group_name"
    )
    split = (
        join_local(task_regions, located, {"vertex": "of_vertex"})
        .select(
            TOPOLOGY,
            "co_location_group",
            "co_location_group_name",
            F.posexplode("regions").alias("i", "region"),
        )
        .groupBy(TOPOLOGY, "co_location_group", "i")
        .agg(
            F.first("co_location_group_name").alias("group_name"),
            F.min("region").alias("first"),
            F.max("region").alias("last"),
        )
        .filter("first != last")
    )
    message = F.lit(NOT_IN_SAME_REGION)
    location = F.concat(F.lit("co-location group "), "group_name")
    return refusals(split, Layer.EXECUTION_GRAPH, [F.lit(CO_LOCATION)], ILLEGAL_STATE, message, location)


def _too_many_tasks(job_vertices: DataFrame, connected_edges: DataFrame) -> DataFrame:
    rows = largest_vertices(job_vertices, connected_edges)
    everything, tasks, inputs = (F.format_number(name, 0) for name in ("all", "tasks", "inputs"))
    message = F.concat(everything, F.lit(OF_ALL), tasks, F.lit(INPUTS_EACH), inputs)
    return refusals(rows, Layer.EXECUTION_GRAPH, [F.lit(TOO_MANY)], TOO_MANY_TASKS, message, _vertex())


def _vertex() -> Column:
    return F.concat(F.lit("vertex "), "name")
