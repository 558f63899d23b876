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

    Example: tests/passes/fixtures/execution_edges.txt.
    """
    return expand_in_workers(placed_edges, EXECUTION_EDGES)
