"""Derive execution job vertices, and scheduling regions of tasks that have to run at the same time."""

import polars as pl

from penstock.operators.common.key_groups import (
    DEFAULT_LOWER_BOUND_MAX_PARALLELISM,
    UPPER_BOUND_MAX_PARALLELISM,
)
from penstock.plans.execution_graph.job_graph_arrays import job_graph_arrays, with_task_numbers
from penstock.plans.execution_graph.refuse_execution_graphs import (
    bounded_parallelism,
    largest_vertices,
)
from penstock.plans.execution_graph.regions_of_tasks import regions_of_tasks
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY


def find_pipelined_regions(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """Return `regions`, the scheduling region of each subtask, one row per job vertex (key topology_id,
    vertex).

    In: ordered_vertices, placed_edges (see job_graph_arrays). Out: rows in the order of ordered_vertices. A
    region's number is the smallest task number in it; tasks of a topology are numbered from 0 by the
    topological order of their vertices, then by subtask.

    Source: DefaultExecutionTopology.generateNewPipelinedRegions, SchedulingPipelinedRegionComputeUtil,
    PipelinedRegionComputeUtil. Flink gives regions no order (they come out of identity hash maps).

    Example: tests/passes/fixtures/task_regions.txt.
    """
    regions = regions_of_tasks(job_graph_arrays(ordered_vertices, placed_edges))
    return with_task_numbers(ordered_vertices, "regions", regions)


def create_execution_job_vertices(job_vertices: pl.DataFrame, connected_edges: pl.DataFrame) -> pl.DataFrame:
    """Return execution_job_vertices, one row per job vertex (key topology_id, vertex).

    In: job_vertices (see number_co_location_groups), connected_edges (see connect_vertices). A parallelism
    decided at run time counts as 1; one above Flink's limit is cut. In a topology with too many tasks, which
    refuse_execution_graphs refuses, each parallelism is 1, so that rows stay few until then.

    Source: SchedulerBase.computeVertexParallelismStore, getDefaultMaxParallelism, normalizeParallelism;
    KeyGroupRangeAssignment.computeDefaultMaxParallelism.

    Example: tests/passes/fixtures/execution_job_vertices.txt.
    """
    too_large = largest_vertices(job_vertices, connected_edges)[TOPOLOGY]
    parallelism = bounded_parallelism()
    if not too_large.is_empty():
        parallelism = pl.when(pl.col(TOPOLOGY).is_in(too_large.implode())).then(1).otherwise(parallelism)
    wanted = pl.max_horizontal(parallelism * 3 // 2, DEFAULT_LOWER_BOUND_MAX_PARALLELISM)
    derived = pl.min_horizontal(_next_power_of_two(wanted), UPPER_BOUND_MAX_PARALLELISM)
    max_parallelism = pl.col("max_parallelism")
    return job_vertices.select(
        TOPOLOGY,
        "vertex",
        parallelism.cast(pl.Int32).alias("parallelism"),
        pl.when(max_parallelism == NOT_DECIDED)
        .then(derived)
        .otherwise(max_parallelism)
        .cast(pl.Int32)
        .alias("max_parallelism"),
    )


def _next_power_of_two(number: pl.Expr) -> pl.Expr:
    bits = 64 - (number.cast(pl.Int64) - 1).bitwise_leading_zeros().cast(pl.Int64)
    return pl.lit(2, pl.Int64).pow(bits)
