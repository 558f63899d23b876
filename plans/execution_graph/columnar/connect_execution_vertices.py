"""Which partitions and subpartitions every subtask reads, as ranges."""

import numpy as np
import polars as pl

from plans.columnar.repeated_rows import repeated_rows
from plans.execution_graph.pointwise_edges import partitions_of_subtask, subtasks_of_partition
from plans.tables import EXECUTION_EDGES
from plans.tables.column_types import TOPOLOGY


def execution_edges(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per consuming subtask and gate (key topology_id, target_vertex, input_index, subtask).

    In: placed_edges (see place_job_edges). Out: execution_edges: an edge of 10,000 to 10,000 subtasks is
    10,000 rows.

    Source: VertexInputInfoComputationUtils.computeVertexInputInfoForPointwise and ForAllToAll of a graph that
    is not dynamic, EdgeManagerBuildUtil.

    Example: tests/passes/fixtures/execution_edges.txt.
    """
    producers, consumers = (placed_edges[end].to_numpy() for end in ("producers", "consumers"))
    all_to_all = placed_edges["all_to_all"].to_numpy()
    of, subtask = rows = repeated_rows(placed_edges["consumers"])
    reads_all = all_to_all[of]
    first, last = np.where(reads_all, 0, subtask), np.where(reads_all, producers[of] - 1, subtask)
    subpartition = np.where(reads_all, subtask, 0)
    uneven = np.flatnonzero((~all_to_all & (producers != consumers))[of])
    shape = producers[of[uneven]], consumers[of[uneven]]
    first[uneven], end = partitions_of_subtask(subtask[uneven], *shape)
    last[uneven] = end - 1
    first_reader, end_reader = subtasks_of_partition(first[uneven], *shape)
    subpartition[uneven] = subtask[uneven] % (end_reader - first_reader)
    return pl.DataFrame(
        {
            **rows.taken(placed_edges.select(TOPOLOGY, "target_vertex", "input_index")),
            "subtask": subtask,
            "first_partition": first,
            "last_partition": last,
            "first_subpartition": subpartition,
            "last_subpartition": subpartition,
        }
    ).select(EXECUTION_EDGES.names)
