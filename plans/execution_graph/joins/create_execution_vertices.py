"""One execution vertex per subtask, with its scheduling region."""

import polars as pl
from pyspark.sql import DataFrame

from plans.execution_graph.columnar import create_execution_vertices as columnar
from plans.joins.expand_in_workers import Expansion, expand_in_workers


def _tasks(task_regions: pl.DataFrame) -> pl.Series:
    return task_regions["regions"].list.len()


EXECUTION_VERTICES = Expansion("execution_vertices", columnar.execution_vertices, _tasks)


def execution_vertices(task_regions: DataFrame) -> DataFrame:
    """In: task_regions (see find_pipelined_regions). Out (key topology_id, vertex, subtask):
    execution_vertices.

    Source: ExecutionJobVertex, ExecutionVertex.

    Example: tests/passes/fixtures/execution_vertices.txt.
    """
    return expand_in_workers(task_regions, EXECUTION_VERTICES)
