"""Which partitions and subpartitions every subtask reads, as ranges."""

from operator import itemgetter

from pyspark.sql import DataFrame

from plans.execution_graph.columnar import connect_execution_vertices as columnar
from plans.joins.expand_in_workers import Expansion, expand_in_workers

EXECUTION_EDGES = Expansion("execution_edges", columnar.execution_edges, itemgetter("consumers"))


def execution_edges(placed_edges: DataFrame) -> DataFrame:
    """One row per consuming subtask and gate (key topology_id, target_vertex, input_index, subtask).

    In: placed_edges (see place_job_edges). Out: execution_edges: an edge of 10,000 to 10,000 subtasks is
    10,000 rows.

    Source: VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise and ForAllToAll of a graph that
    is not dynamic, EdgeManagerBuildUtil.

    Example: a task of a pointwise edge reads some partitions, one of an all-to-all edge all of them
    (tests/passes/fixtures/execution_edges.txt).

        connected_edges
        source_vertex  target_vertex  distribution
        1              3              POINTWISE
        3              5              ALL_TO_ALL

        execution_job_vertices
        vertex  parallelism
        1       4
        3       2
        5       3

        -> execution_edges
        target_vertex  subtask  first_partition  last_partition  first_subpartition
        3              0        0                1               0
        3              1        2                3               0
        5              0        0                1               0
        5              1        0                1               1
        5              2        0                1               2
    """
    return expand_in_workers(placed_edges, EXECUTION_EDGES)
