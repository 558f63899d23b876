"""Tasks that have to run at the same time: scheduling regions."""

import polars as pl

from plans.columnar.execution_graph.job_graph_arrays import job_graph_rows
from plans.columnar.frames import walk
from plans.execution_graph.find_pipelined_regions import REGIONS, region_numbers


def find_pipelined_regions(
    named_vertices: pl.DataFrame, execution_job_vertices: pl.DataFrame, connected_edges: pl.DataFrame
) -> pl.DataFrame:
    """One row a job vertex (key topology_id, vertex): regions, the scheduling region of each subtask.

    As plans.execution_graph.find_pipelined_regions.
    """
    rows = job_graph_rows(named_vertices, execution_job_vertices, connected_edges)
    return walk(rows, [], region_numbers, REGIONS)
