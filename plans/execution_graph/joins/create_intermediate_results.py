"""Intermediate results and their partitions: what every subtask produces."""

from operator import itemgetter

from pyspark.sql import DataFrame

from plans.execution_graph.columnar import create_intermediate_results as columnar
from plans.joins.expand_in_workers import Expansion, expand_in_workers

_PARTITIONS = itemgetter("producers")

INTERMEDIATE_RESULTS = Expansion("intermediate_results", columnar.intermediate_results, _PARTITIONS)
INTERMEDIATE_RESULT_PARTITIONS = Expansion(
    "intermediate_result_partitions", columnar.intermediate_result_partitions, _PARTITIONS
)


def intermediate_results(placed_edges: DataFrame) -> DataFrame:
    """One row per intermediate data set (key topology_id, vertex, output_index): intermediate_results.

    In: placed_edges (see place_job_edges).

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
    return expand_in_workers(placed_edges, INTERMEDIATE_RESULTS)


def intermediate_result_partitions(placed_edges: DataFrame) -> DataFrame:
    """One row per result partition (key topology_id, vertex, output_index, partition).

    In: placed_edges (see place_job_edges). Out: intermediate_result_partitions.

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
    return expand_in_workers(placed_edges, INTERMEDIATE_RESULT_PARTITIONS)
