"""Tasks that have to run at the same time: scheduling regions."""

import polars as pl

from plans.execution_graph.columnar.job_graph_arrays import job_graph_arrays, with_task_numbers
from plans.execution_graph.find_pipelined_regions import regions_of_tasks


def find_pipelined_regions(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): regions, the scheduling region of each subtask.

    As in joins.find_pipelined_regions; rows are those of ordered_vertices.

    Example: tests/passes/fixtures/task_regions.txt.
    """
    regions = regions_of_tasks(job_graph_arrays(ordered_vertices, placed_edges))
    return with_task_numbers(ordered_vertices, "regions", regions)
