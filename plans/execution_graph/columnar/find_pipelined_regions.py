"""Tasks that have to run at the same time: scheduling regions."""

import polars as pl

from plans.execution_graph.columnar.job_graph_arrays import job_graph_arrays, with_task_numbers
from plans.execution_graph.find_pipelined_regions import regions_of_tasks


def find_pipelined_regions(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): regions, the scheduling region of each subtask.

    As in joins.find_pipelined_regions; rows are those of ordered_vertices.

    Example: pointwise edges connect some tasks, all-to-all edges all of them
    (tests/passes/fixtures/task_regions.txt).

        connected_edges
        source_vertex  target_vertex  distribution  result_partition_type
        1              3              POINTWISE     PIPELINED_BOUNDED

        execution_job_vertices
        vertex  parallelism
        1       3
        3       2

        -> task_regions
        vertex  regions
        1       [0, 1, 1]
        3       [0, 1]
    """
    regions = regions_of_tasks(job_graph_arrays(ordered_vertices, placed_edges))
    return with_task_numbers(ordered_vertices, "regions", regions)
