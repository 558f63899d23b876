"""Intermediate results and their partitions: what every subtask produces."""

import polars as pl

from plans.columnar.execution_graph.connect_execution_vertices import (
    ENDS,
    first_consumer,
    is_all_to_all,
    with_both_parallelisms,
)
from plans.columnar.frames import TOPOLOGY
from plans.schema import INTERMEDIATE_RESULT_PARTITIONS


def intermediate_results(connected_edges: pl.DataFrame, execution_job_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row an intermediate data set (key topology_id, vertex, output_index).

    As plans.execution_graph.create_intermediate_results.
    """
    producers, consumers = pl.col("producers"), pl.col("consumers")
    most = pl.when(is_all_to_all()).then(consumers).otherwise((consumers + producers - 1) // producers)
    return _data_sets(connected_edges, execution_job_vertices).select(
        TOPOLOGY,
        "vertex",
        "output_index",
        producers.alias("partitions"),
        most.alias("most_subpartitions"),
    )


def intermediate_result_partitions(
    connected_edges: pl.DataFrame, execution_job_vertices: pl.DataFrame
) -> pl.DataFrame:
    """One row a result partition (key topology_id, vertex, output_index, partition).

    As plans.execution_graph.create_intermediate_results; 32 bits hold all products, as for execution_edges.
    """
    partition, producers, consumers = pl.col("partition"), pl.col("producers"), pl.col("consumers")
    # With more producers than consumers a partition has one consumer: the last whose range starts before it.
    only = ((partition + 1) * consumers + producers - 1) // producers - 1
    fanned_from = first_consumer(partition, producers, consumers)
    fanned_to = first_consumer(partition + 1, producers, consumers)
    all_to_all, narrowing = pl.col("all_to_all"), producers >= consumers
    first = pl.when(all_to_all).then(0).when(narrowing).then(only).otherwise(fanned_from)
    count = pl.when(all_to_all).then(consumers).when(narrowing).then(1).otherwise(fanned_to - fanned_from)
    return (
        _data_sets(connected_edges, execution_job_vertices)
        .select(
            TOPOLOGY,
            "vertex",
            "output_index",
            "producers",
            "consumers",
            is_all_to_all().alias("all_to_all"),
            pl.int_ranges(0, "producers", dtype=pl.Int32).alias("partition"),
        )
        .explode("partition")
        .with_columns(
            first.cast(pl.Int32).alias("first_consumer"), count.cast(pl.Int32).alias("subpartitions")
        )
        .select(INTERMEDIATE_RESULT_PARTITIONS.names)
    )


def _data_sets(connected_edges: pl.DataFrame, execution_job_vertices: pl.DataFrame) -> pl.DataFrame:
    """Data sets with the parallelism at both ends: all consumers of one have the same."""
    first = connected_edges.filter(pl.col("consumer_index") == 0).select(
        *ENDS, pl.col("source_vertex").alias("vertex"), "output_index"
    )
    return with_both_parallelisms(first, execution_job_vertices)
