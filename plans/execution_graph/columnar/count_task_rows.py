"""How many rows the tables of tasks will have."""

from typing import NamedTuple

import polars as pl

from plans.errors import NotEnoughMemoryError

MOST_ROWS = 2**32 - 1
"""Rows of a table that polars can number."""


class TaskRows(NamedTuple):
    """Rows of execution_vertices, intermediate_result_partitions and execution_edges."""

    tasks: int
    partitions: int
    edges: int


def count_task_rows(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> TaskRows:
    """Counts the rows of the tables of tasks before any of them is made.

    In: ordered_vertices (see order_job_vertices), placed_edges (see place_job_edges). Raises
    NotEnoughMemoryError where a table would have more than MOST_ROWS.
    """
    first_consumers = placed_edges.filter(pl.col("consumer_index") == 0)
    rows = TaskRows(
        _sum(ordered_vertices["parallelism"]),
        _sum(first_consumers["producers"]),
        _sum(placed_edges["consumers"]),
    )
    if max(rows) > MOST_ROWS:
        raise NotEnoughMemoryError(
            f"{rows.tasks:,} tasks with {rows.edges:,} inputs: found {max(rows):,} rows of one table, "
            f"allowed {MOST_ROWS:,}",
            "plan the input in smaller parts, or with --until job_graph, which has no tasks",
        )
    return rows


def _sum(counts: pl.Series) -> int:
    return int(counts.cast(pl.Int64).sum())
