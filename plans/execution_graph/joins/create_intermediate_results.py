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

    Example: tests/passes/fixtures/intermediate_results.txt.
    """
    return expand_in_workers(placed_edges, INTERMEDIATE_RESULTS)


def intermediate_result_partitions(placed_edges: DataFrame) -> DataFrame:
    """One row per result partition (key topology_id, vertex, output_index, partition).

    In: placed_edges (see place_job_edges). Out: intermediate_result_partitions.

    Source: IntermediateResultPartition.getNumberOfSubpartitions, EdgeManagerBuildUtil.connectPointwise.

    Example: tests/passes/fixtures/intermediate_result_partitions.txt.
    """
    return expand_in_workers(placed_edges, INTERMEDIATE_RESULT_PARTITIONS)
