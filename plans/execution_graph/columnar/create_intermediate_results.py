"""Intermediate results and their partitions: what every subtask produces."""

import numpy as np
import polars as pl

from plans.columnar.repeated_rows import Int32s, repeated_rows
from plans.execution_graph.columnar.connect_execution_vertices import first_consumer
from plans.tables import INTERMEDIATE_RESULT_PARTITIONS
from plans.tables.column_types import TOPOLOGY


def intermediate_results(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per intermediate data set (key topology_id, vertex, output_index).

    In: placed_edges (see place_job_edges). Columns and source: see joins.create_intermediate_results.

    Example: a data set has a partition for each subtask of its producer
    (tests/passes/fixtures/intermediate_results.txt).

        connected_edges
        source_vertex  output_index  target_vertex  distribution
        1              0             3              POINTWISE
        1              1             5              ALL_TO_ALL

        execution_job_vertices
        vertex  parallelism
        1       2
        3       5
        5       5

        -> intermediate_results
        vertex  output_index  partitions  most_subpartitions
        1       0             2           3
        1       1             2           5
    """
    producers, consumers = pl.col("producers"), pl.col("consumers")
    most = pl.when("all_to_all").then(consumers).otherwise((consumers + producers - 1) // producers)
    return _data_sets(placed_edges).select(
        TOPOLOGY,
        "vertex",
        "output_index",
        producers.alias("partitions"),
        most.alias("most_subpartitions"),
    )


def intermediate_result_partitions(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per result partition (key topology_id, vertex, output_index, partition).

    In: placed_edges (see place_job_edges). As in joins.create_intermediate_results; 32 bits hold
    all products, as for execution_edges.

    Example: a partition has a subpartition for each task that reads it
    (tests/passes/fixtures/intermediate_result_partitions.txt).

        connected_edges
        source_vertex  target_vertex  distribution
        1              3              POINTWISE

        execution_job_vertices
        vertex  parallelism
        1       2
        3       5

        -> intermediate_result_partitions
        vertex  output_index  partition  first_consumer  subpartitions
        1       0             0          0               3
        1       0             1          3               2
    """
    data_sets = _data_sets(placed_edges)
    producers, consumers = (data_sets[end].to_numpy() for end in ("producers", "consumers"))
    all_to_all = data_sets["all_to_all"].to_numpy()
    of, partition = rows = repeated_rows(data_sets["producers"])
    first = np.where(all_to_all[of], 0, partition)
    count = np.where(all_to_all, consumers, 1)[of]
    uneven = np.flatnonzero((~all_to_all & (producers != consumers))[of])
    first[uneven], count[uneven] = _consumed_pointwise(
        partition[uneven], producers[of[uneven]], consumers[of[uneven]]
    )
    return pl.DataFrame(
        {
            **rows.taken(data_sets.select(TOPOLOGY, "vertex", "output_index")),
            "partition": partition,
            "first_consumer": first,
            "subpartitions": count,
        }
    ).select(INTERMEDIATE_RESULT_PARTITIONS.names)


def _consumed_pointwise(partition: Int32s, producers: Int32s, consumers: Int32s) -> tuple[Int32s, Int32s]:
    """The first consuming subtask of each partition that a pointwise edge reads, and how many there are."""
    # With more producers than consumers a partition has one consumer: the last whose range starts before it.
    narrowing = producers >= consumers
    first, end = (first_consumer(at, producers, consumers) for at in (partition, partition + 1))
    return np.where(narrowing, end - 1, first), np.where(narrowing, 1, end - first)


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
