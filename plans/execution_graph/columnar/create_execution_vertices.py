"""One execution vertex per subtask, with its scheduling region."""

import polars as pl


def execution_vertices(task_regions: pl.DataFrame) -> pl.DataFrame:
    """One row per subtask (key topology_id, vertex, subtask): execution_vertices.

    In: task_regions (see find_pipelined_regions).

    Source: ExecutionJobVertex, ExecutionVertex.

    Example: tests/passes/fixtures/execution_vertices.txt.
    """
    return of_subtasks(task_regions, "regions", "pipelined_region")


def of_subtasks(tasks: pl.DataFrame, numbers: str, number: str) -> pl.DataFrame:
    """One row per subtask: the list column `numbers` as `subtask` (from 0) and `number`, the last columns."""
    kept = [name for name in tasks.columns if name != numbers]
    subtasks = pl.int_ranges(0, pl.col(numbers).list.len(), dtype=pl.Int32).alias("subtask")
    return tasks.select(*kept, subtasks, pl.col(numbers).alias(number)).explode("subtask", number)
