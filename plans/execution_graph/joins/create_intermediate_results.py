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
    """One row an intermediate data set (key topology_id, vertex, output_index): intermediate_results.

    In: connected_edges (see connect_vertices), execution_job_vertices.

    Source: IntermediateResult; EdgeManagerBuildUtil.computeMaxEdgesToTargetExecutionVertex.
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
    """One row a result partition (key topology_id, vertex, output_index, partition).

    In: connected_edges (see connect_vertices), execution_job_vertices. Out: intermediate_result_partitions.

    Source: IntermediateResultPartition.getNumberOfSubpartitions, EdgeManagerBuildUtil.connectPointwise.
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
