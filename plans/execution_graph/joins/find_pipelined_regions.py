"""Execution job vertices, and the tasks that have to run at the same time: scheduling regions."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.common.key_groups import (
    DEFAULT_LOWER_BOUND_MAX_PARALLELISM,
    UPPER_BOUND_MAX_PARALLELISM,
)
from penstock.plans.execution_graph.find_pipelined_regions import regions_of_tasks
from penstock.plans.execution_graph.joins.job_graph_arrays import (
    job_graph_arrays,
    job_graph_rows,
    task_numbers,
    task_numbers_batch,
)
from penstock.plans.execution_graph.joins.refuse_execution_graphs import bounded_parallelism, largest_vertices
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_walks import walk_topologies
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY

REGIONS = task_numbers("regions")


def find_pipelined_regions(
    job_vertices: DataFrame, execution_job_vertices: DataFrame, connected_edges: DataFrame
) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): regions, the scheduling region of each subtask.

    In: job_vertices (see number_co_location_groups), execution_job_vertices, connected_edges (see
    connect_vertices). A region's number is the smallest task number in it; tasks of a topology are numbered
    from 0 by the topological order of their vertices, then by subtask.

    Source: DefaultExecutionTopology.generateNewPipelinedRegions, SchedulingPipelinedRegionComputeUtil,
    PipelinedRegionComputeUtil. Flink gives regions no order of their own (they come out of identity hash
    maps); which tasks are in one does not depend on it.

    Example: tests/passes/fixtures/task_regions.txt.
    """
    parts = job_graph_rows(job_vertices, execution_job_vertices, connected_edges)
    return walk_topologies(parts, region_numbers, REGIONS)


def region_numbers(vertices: pa.Table, edges: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows of find_pipelined_regions for the job_graph_rows of whole topologies."""
    graph = job_graph_arrays(vertices, edges)
    yield task_numbers_batch(graph, "regions", regions_of_tasks(graph))


def create_execution_job_vertices(job_vertices: DataFrame, connected_edges: DataFrame) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): execution_job_vertices.

    In: job_vertices (see number_co_location_groups), connected_edges (see connect_vertices). A parallelism
    that is decided at run time counts as 1. One beyond what Flink allows is cut, and all of a topology that
    has too many tasks are 1: refuse_execution_graphs refuses the topology, and until then its rows must stay
    few.

    Source: SchedulerBase.computeVertexParallelismStore, getDefaultMaxParallelism,
    normalizeParallelism; KeyGroupRangeAssignment.computeDefaultMaxParallelism.

    Example: tests/passes/fixtures/execution_job_vertices.txt.
    """
    too_large = largest_vertices(job_vertices, connected_edges).select(TOPOLOGY, "all")
    parallelism = F.when(F.col("all").isNull(), bounded_parallelism()).otherwise(1)
    derived = F.least(
        F.greatest(
            _next_power_of_two(F.floor(parallelism * 3 / 2)), F.lit(DEFAULT_LOWER_BOUND_MAX_PARALLELISM)
        ),
        F.lit(UPPER_BOUND_MAX_PARALLELISM),
    )
    max_parallelism = F.col("max_parallelism")
    return join_local(job_vertices, too_large, {}, "left").select(
        TOPOLOGY,
        "vertex",
        parallelism.cast("int").alias("parallelism"),
        F.when(max_parallelism == NOT_DECIDED, derived)
        .otherwise(max_parallelism)
        .cast("int")
        .alias("max_parallelism"),
    )


def _next_power_of_two(number: Column) -> Column:
    # Exact where log2 is not: a double may round a power of two up or down.
    return F.pow(F.lit(2), F.length(F.bin(number - 1))).cast("int")
