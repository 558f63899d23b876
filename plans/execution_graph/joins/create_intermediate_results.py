"""Intermediate results and their partitions: what every subtask produces."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.execution_graph.joins.connect_execution_vertices import (
    first_consumer,
    is_all_to_all,
    with_both_parallelisms,
)
from plans.tables import INTERMEDIATE_RESULT_PARTITIONS
from plans.tables.column_types import TOPOLOGY


def intermediate_results(connected_edges: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    """One row per intermediate data set (key topology_id, vertex, output_index): intermediate_results.

    In: connected_edges (see connect_vertices), execution_job_vertices.

    Source: IntermediateResult; EdgeManagerBuildUtil.computeMaxEdgesToTargetExecutionVertex.

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
    producers, consumers = F.col("producers"), F.col("consumers")
    most = F.when(is_all_to_all(), consumers).otherwise(F.ceil(consumers / producers))
    return _data_sets(connected_edges, execution_job_vertices).select(
        TOPOLOGY,
        "vertex",
        "output_index",
        producers.alias("partitions"),
        most.cast("int").alias("most_subpartitions"),
    )


def intermediate_result_partitions(
    connected_edges: DataFrame, execution_job_vertices: DataFrame
) -> DataFrame:
    """One row per result partition (key topology_id, vertex, output_index, partition).

    In: connected_edges (see connect_vertices), execution_job_vertices. Out: intermediate_result_partitions.

    Source: IntermediateResultPartition.getNumberOfSubpartitions, EdgeManagerBuildUtil.connectPointwise.

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
    partition, producers, consumers = F.col("partition"), F.col("producers"), F.col("consumers")
    # With more producers than consumers a partition has one consumer: the last whose range starts before it.
    only = F.ceil((partition + 1) * consumers / producers) - 1
    fanned_from = first_consumer(partition, producers, consumers)
    narrowing = producers >= consumers
    first = F.when(is_all_to_all(), 0).when(narrowing, only).otherwise(fanned_from)
    count = (
        F.when(is_all_to_all(), consumers)
        .when(narrowing, 1)
        .otherwise(first_consumer(partition + 1, producers, consumers) - fanned_from)
    )
    values = {"first_consumer": first.cast("int"), "subpartitions": count.cast("int")}
    return (
        _data_sets(connected_edges, execution_job_vertices)
        .select(
            TOPOLOGY,
            "vertex",
            "output_index",
            "distribution",
            F.col("producers").cast("bigint"),
            F.col("consumers").cast("bigint"),
            F.explode(F.sequence(F.lit(0), F.col("producers") - 1)).alias("partition"),
        )
        .select(
            *(
                values[name].alias(name) if name in values else name
                for name in INTERMEDIATE_RESULT_PARTITIONS.names
            )
        )
    )


def _data_sets(connected_edges: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    """Data sets with the parallelism at both ends: all consumers of one have the same."""
    first = connected_edges.filter("consumer_index = 0").select(
        TOPOLOGY,
        F.col("source_vertex").alias("vertex"),
        "source_vertex",
        "target_vertex",
        "output_index",
        "distribution",
    )
    return with_both_parallelisms(first, execution_job_vertices)
