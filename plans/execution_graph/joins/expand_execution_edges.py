"""Execution edges one by one, for display."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.tables.column_types import TOPOLOGY


def expand_execution_edges(execution_edges: DataFrame, *also: str) -> DataFrame:
    """One row per ExecutionEdge: a partition that a subtask reads, lazily.

    In: execution_edges, all or the rows of chosen job edges, and columns `also` that are kept. Out (key
    topology_id, target_vertex, input_index, subtask, partition): those columns and first_subpartition,
    last_subpartition. The rows of an all-to-all edge are as many as the product of both parallelisms.
    """
    return execution_edges.select(
        TOPOLOGY,
        "target_vertex",
        "input_index",
        "subtask",
        F.explode(F.sequence("first_partition", "last_partition")).alias("partition"),
        "first_subpartition",
        "last_subpartition",
        *also,
    )
