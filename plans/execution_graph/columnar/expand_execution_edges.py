"""Execution edges one by one, for display."""

import polars as pl

from plans.tables.column_types import TOPOLOGY


def expand_execution_edges(execution_edges: pl.DataFrame, *also: str) -> pl.DataFrame:
    """One row per ExecutionEdge: a partition that a subtask reads.

    In: execution_edges, all or the rows of chosen job edges, and columns `also` that are kept. Out (key
    topology_id, target_vertex, input_index, subtask, partition): those columns and first_subpartition,
    last_subpartition. The rows of an all-to-all edge are as many as the product of both parallelisms: an edge
    of 10,000 to 10,000 subtasks takes 3 GB, so choose edges or subtasks first.
    """
    partitions = pl.int_ranges("first_partition", pl.col("last_partition") + 1, dtype=pl.Int32)
    return execution_edges.select(
        TOPOLOGY,
        "target_vertex",
        "input_index",
        "subtask",
        partitions.alias("partition"),
        "first_subpartition",
        "last_subpartition",
        *also,
    ).explode("partition")
