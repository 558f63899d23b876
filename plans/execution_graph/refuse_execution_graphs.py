"""Topologies that Flink refuses while it builds the ExecutionGraph."""

from collections.abc import Mapping

import polars as pl

from penstock.operators.common.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE
from penstock.plans.execution_graph.create_intermediate_results import explode_subtasks
from penstock.plans.frames.arrays import INPUTS_EACH, MOST_TASKS, OF_ALL, TASKS_OF_A_VERTEX, TOO_MANY_TASKS
from penstock.plans.frames.polars_frames import join_topology, look_up, rename
from penstock.plans.frames.polars_refusals import NO_REASON, first_refusals, refusals
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

# The topology and vertex with the most tasks, for the message that they do not fit in memory.


def name_most_tasks(tables: Mapping[str, pl.DataFrame]) -> str:
    """Describe the topology with the most tasks and its widest vertex.

    In: ordered_vertices, not empty; topologies and job_vertices, for names, if still available.
    """
    vertices = tables["ordered_vertices"].select(TOPOLOGY, "vertex", pl.col("parallelism").cast(pl.Int64))
    tasks = vertices.group_by(TOPOLOGY).agg(pl.col("parallelism").sum()).sort("parallelism", TOPOLOGY)
    topology, most = tasks.row(-1)
    of_topology = vertices.filter(pl.col(TOPOLOGY) == topology)
    widest = of_topology.sort("parallelism", "vertex").row(-1, named=True)
    name = _name(tables, "topologies", pl.col(TOPOLOGY) == topology) or f"id {topology}"
    here = (pl.col(TOPOLOGY) == topology) & (pl.col("vertex") == widest["vertex"])
    vertex = _name(tables, "job_vertices", here)
    named = f"vertex {widest['vertex']}" + (f" ({vertex})" if vertex else "")
    return (
        f"topology {name} has {most:,} tasks in {len(of_topology):,} vertices, "
        f"{widest['parallelism']:,} of them in {named}"
    )


def _name(tables: Mapping[str, pl.DataFrame], table: str, row: pl.Expr) -> str | None:
    names = tables[table].filter(row)["name"].to_list() if table in tables else []
    return limited(names[0], MOST_OF_A_NAME) if names else None


# Topologies with more tasks than a plan can contain.


_ROWS = (pl.col("tasks") * (pl.col("inputs") + 1)).alias("rows")


def effective_parallelism() -> pl.Expr:
    """The parallelism of a row of job_vertices, or 1 if it is decided at run time."""
    parallelism = pl.col("parallelism")
    return pl.when(parallelism == NOT_DECIDED).then(1).otherwise(parallelism)


def bounded_parallelism() -> pl.Expr:
    """As effective_parallelism, capped at Flink's maximum."""
    return pl.min_horizontal(effective_parallelism(), UPPER_BOUND_MAX_PARALLELISM)


def largest_vertices(job_vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """For each topology with too many tasks (see frames.counts), its vertex with the most tasks and task
    inputs.

    In: job_vertices (see number_co_location_groups), connected_edges (see connect_vertices). Out: all (tasks
    and task inputs of the topology); name, tasks and inputs (per task) of the vertex; among equal ones the
    first in topological order.
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


# Messages for topologies whose ExecutionGraph Flink refuses.


BOUNDS, MAX_PARALLELISM, CO_LOCATION, TOO_MANY = range(4)
JOB_EXCEPTION = "JobException"
NOT_WITHIN_BOUNDS = "Operator parallelism not within bounds: "
NOT_IN_VALID_BOUNDS = (
    f"Setting parallelism is not in valid bounds (1..{UPPER_BOUND_MAX_PARALLELISM}), found: "
)
NOT_IN_SAME_REGION = "co-located tasks must be in the same pipelined region"
ABOVE_MAX_PARALLELISM = (
    "Vertex ",
    "'s parallelism (",
    ") is higher than the max parallelism (",
    "). Please lower the parallelism or increase the max parallelism.",
)
"""The text before, between and after name, parallelism and max parallelism."""


def refuse_execution_graphs(
    job_vertices: pl.DataFrame,
    execution_job_vertices: pl.DataFrame,
    connected_edges: pl.DataFrame,
    task_regions: pl.DataFrame,
) -> pl.DataFrame:
    """Return one row per refused topology (see first_refusals) by Flink's checks in their order, then
    limit_tasks.

    In: job_vertices, execution_job_vertices, connected_edges, task_regions (see find_pipelined_regions).

    Source: KeyGroupRangeAssignment.checkParallelismPreconditions, VertexParallelismInformation,
    ExecutionJobVertex, DefaultExecutionTopology.ensureCoLocatedVerticesInSameRegion.

    Example: tests/passes/fixtures/execution_graph_refusals.txt.
    """
    return first_refusals(
        [
            out_of_bounds(job_vertices),
            above_max_parallelism(job_vertices, execution_job_vertices),
            split_co_locations(job_vertices, task_regions),
            too_many_tasks(largest_vertices(job_vertices, connected_edges)),
        ]
    )


def out_of_bounds(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The reasons that parallelisms above Flink's limit are."""
    rows = job_vertices.select(TOPOLOGY, "name", "parallelism", "max_parallelism", "creation_order").filter(
        effective_parallelism() > UPPER_BOUND_MAX_PARALLELISM
    )
    derived = pl.col("max_parallelism") == NOT_DECIDED
    text = pl.when(derived).then(pl.lit(NOT_WITHIN_BOUNDS)).otherwise(pl.lit(NOT_IN_VALID_BOUNDS))
    message = pl.concat_str(text, "parallelism")
    order = [pl.lit(BOUNDS), pl.col("creation_order")]
    return refusals(rows, Layer.EXECUTION_GRAPH, order, ILLEGAL_ARGUMENT, message, _vertex())


def above_max_parallelism(job_vertices: pl.DataFrame, execution_job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The reasons that parallelisms above the vertex's max parallelism are."""
    above = execution_job_vertices.filter(pl.col("parallelism") > pl.col("max_parallelism"))
    effective = rename(above, of_vertex="vertex", subtasks="parallelism", effective_max="max_parallelism")
    vertices = job_vertices.select(TOPOLOGY, "vertex", "name", "topological_order")
    rows = join_topology(vertices, effective, {"vertex": "of_vertex"})
    before, of_parallelism, of_max, after = map(pl.lit, ABOVE_MAX_PARALLELISM)
    message = pl.concat_str(before, "name", of_parallelism, "subtasks", of_max, "effective_max", after)
    order = [pl.lit(MAX_PARALLELISM), pl.col("topological_order")]
    return refusals(rows, Layer.EXECUTION_GRAPH, order, JOB_EXCEPTION, message, _vertex())


def split_co_locations(job_vertices: pl.DataFrame, task_regions: pl.DataFrame) -> pl.DataFrame:
    """Subtasks of one index of a co-location group must be in one region."""
    located = job_vertices.filter(pl.col("co_location_group").is_not_null()).select(
        TOPOLOGY, "vertex", "co_location_group", "co_location_group_name"
    )
    if located.is_empty():
        return located
    region = pl.col("region")
    split = (
        explode_subtasks(join_topology(located, task_regions, {"vertex": "vertex"}), "regions", "region")
        .group_by(TOPOLOGY, "co_location_group", "subtask")
        .agg(pl.col("co_location_group_name").first(), (region.min() != region.max()).alias("split"))
        .filter("split")
    )
    message, order = pl.lit(NOT_IN_SAME_REGION), [pl.lit(CO_LOCATION)]
    location = pl.concat_str(pl.lit("co-location group "), "co_location_group_name")
    return refusals(split, Layer.EXECUTION_GRAPH, order, ILLEGAL_STATE, message, location)


def too_many_tasks(rows: pl.DataFrame) -> pl.DataFrame:
    """The reasons that topologies with too many tasks are, from their largest_vertices."""
    if rows.is_empty():
        return NO_REASON
    everything, tasks, inputs = (
        pl.col(name).map_elements("{:,}".format, return_dtype=pl.String)
        for name in ("all", "tasks", "inputs")
    )
    message = pl.concat_str(everything, pl.lit(OF_ALL), tasks, pl.lit(INPUTS_EACH), inputs)
    return refusals(rows, Layer.EXECUTION_GRAPH, [pl.lit(TOO_MANY)], TOO_MANY_TASKS, message, _vertex())


def _vertex() -> pl.Expr:
    return pl.concat_str(pl.lit("vertex "), "name")
