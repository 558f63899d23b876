"""Intermediate results and their partitions: what every subtask produces."""

import numpy as np
import polars as pl

from plans.columnar.repeated_rows import repeated_rows
from plans.execution_graph.pointwise_edges import most_subtasks_of_partition, subtasks_of_partition
from plans.tables import INTERMEDIATE_RESULT_PARTITIONS
from plans.tables.column_types import TOPOLOGY


def intermediate_results(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per intermediate data set (key topology_id, vertex, output_index): intermediate_results.

    In: placed_edges (see place_job_edges).

    Source: IntermediateResult; EdgeManagerBuildUtil.computeMaxEdgesToTargetExecutionVertex.

    Example: tests/passes/fixtures/intermediate_results.txt.
    """
    producers, consumers = pl.col("producers"), pl.col("consumers")
    most = pl.when("all_to_all").then(consumers).otherwise(most_subtasks_of_partition(producers, consumers))
    return _data_sets(placed_edges).select(
        TOPOLOGY,
        "vertex",
        "output_index",
        producers.alias("partitions"),
        most.alias("most_subpartitions"),
    )


def intermediate_result_partitions(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per result partition (key topology_id, vertex, output_index, partition).

    In: placed_edges (see place_job_edges). Out: intermediate_result_partitions.

    Source: IntermediateResultPartition.getNumberOfSubpartitions, EdgeManagerBuildUtil.connectPointwise.

    Example: tests/passes/fixtures/intermediate_result_partitions.txt.
    """
    data_sets = _data_sets(placed_edges)
    producers, consumers = (data_sets[end].to_numpy() for end in ("producers", "consumers"))
    all_to_all = data_sets["all_to_all"].to_numpy()
    of, partition = rows = repeated_rows(data_sets["producers"])
    first = np.where(all_to_all[of], 0, partition)
    count = np.where(all_to_all, consumers, 1)[of]
    uneven = np.flatnonzero((~all_to_all & (producers != consumers))[of])
    first[uneven], end = subtasks_of_partition(
        partition[uneven], producers[of[uneven]], consumers[of[uneven]]
    )
    count[uneven] = end - first[uneven]
    return pl.DataFrame(
        {
            **rows.taken(data_sets.select(TOPOLOGY, "vertex", "output_index")),
            "partition": partition,
            "first_consumer": first,
            "subpartitions": count,
        }
    ).select(INTERMEDIATE_RESULT_PARTITIONS.names)


def _data_sets(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """Data sets by their first edges: all consumers of one have the same parallelism."""
    return placed_edges.filter(pl.col("consumer_index") == 0).select(
        TOPOLOGY,
        pl.col("source_vertex").alias("vertex"),
        "output_index",
        "all_to_all",
        "producers",
        "consumers",
    )
