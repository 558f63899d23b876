"""Topologies that have more tasks than a plan can hold."""

import polars as pl

from penstock.operators.common.parallelism import UPPER_BOUND_MAX_PARALLELISM
from penstock.plans.frames.counts import MOST_TASKS, TASKS_OF_A_VERTEX
from penstock.plans.frames.polars_frames import look_up, rename
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY

_ROWS = (pl.col("tasks") * (pl.col("inputs") + 1)).alias("rows")


def effective_parallelism() -> pl.Expr:
    """The parallelism of a row of job_vertices, 1 where it is decided at run time."""
    parallelism = pl.col("parallelism")
    return pl.when(parallelism == NOT_DECIDED).then(1).otherwise(parallelism)


def bounded_parallelism() -> pl.Expr:
    """As effective_parallelism, no greater than Flink allows."""
    return pl.min_horizontal(effective_parallelism(), UPPER_BOUND_MAX_PARALLELISM)


def largest_vertices(job_vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """The vertex with the most tasks and inputs of tasks of each topology with too many (plans.most_tasks).

    In: job_vertices (see number_co_location_groups), connected_edges (see connect_vertices). Out: all (tasks
    and inputs of tasks of the topology); name, tasks and inputs (of each task) of the vertex, of equal ones
    the first in topological order.
    """
    widest = job_vertices.select(bounded_parallelism().max()).item() or 0
    if widest * (len(job_vertices) + len(connected_edges)) <= MOST_TASKS:
        return pl.DataFrame(schema={TOPOLOGY: pl.Int64})
    inputs = connected_edges.group_by(TOPOLOGY, "target_vertex").len("inputs")
    counted = look_up(
        job_vertices.select(
            TOPOLOGY,
            "vertex",
            "name",
            "topological_order",
            bounded_parallelism().cast(pl.Int64).alias("tasks"),
        ),
        rename(inputs, of_vertex="target_vertex", inputs="inputs"),
        {"vertex": "of_vertex"},
    ).with_columns(pl.col("inputs").fill_null(0).cast(pl.Int64))
    allowed = pl.max_horizontal(MOST_TASKS, pl.len().cast(pl.Int64) * TASKS_OF_A_VERTEX)
    totals = counted.group_by(TOPOLOGY).agg(_ROWS.sum().alias("all"), allowed.alias("allowed"))
    totals = totals.filter(pl.col("all") > pl.col("allowed")).drop("allowed")
    largest = (
        counted.filter(pl.col(TOPOLOGY).is_in(totals[TOPOLOGY].implode()))
        .sort(TOPOLOGY, -_ROWS, "topological_order")
        .unique(TOPOLOGY, keep="first", maintain_order=True)
    )
    return look_up(largest.select(TOPOLOGY, "name", "tasks", "inputs"), totals, {})
