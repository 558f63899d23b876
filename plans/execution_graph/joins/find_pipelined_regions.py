"""Tasks that have to run at the same time: scheduling regions."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from plans.execution_graph.find_pipelined_regions import regions_of_tasks
from plans.execution_graph.joins.job_graph_arrays import (
    job_graph_arrays,
    job_graph_rows,
    task_numbers,
    task_numbers_batch,
)
from plans.joins.arrow_walks import walk_topologies

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
