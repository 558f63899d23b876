"""Which partitions and subpartitions every subtask reads, as ranges."""

import numpy as np
import polars as pl

from plans.columnar.repeated_rows import Int32s, repeated_rows
from plans.tables import EXECUTION_EDGES
from plans.tables.column_types import TOPOLOGY


def execution_edges(placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per consuming subtask and gate (key topology_id, target_vertex, input_index, subtask).

    In: placed_edges (see place_job_edges). Columns and source: see joins.connect_execution_vertices. 32 bits
    hold all products: no parallelism is above UPPER_BOUND_MAX_PARALLELISM.

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
    producers, consumers = (placed_edges[end].to_numpy() for end in ("producers", "consumers"))
    all_to_all = placed_edges["all_to_all"].to_numpy()
    of, subtask = rows = repeated_rows(placed_edges["consumers"])
    reads_all = all_to_all[of]
    first, last = np.where(reads_all, 0, subtask), np.where(reads_all, producers[of] - 1, subtask)
    subpartition = np.where(reads_all, subtask, 0)
    uneven = np.flatnonzero((~all_to_all & (producers != consumers))[of])
    first[uneven], last[uneven], subpartition[uneven] = _read_pointwise(
        subtask[uneven], producers[of[uneven]], consumers[of[uneven]]
    )
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


def _read_pointwise(subtask: Int32s, producers: Int32s, consumers: Int32s) -> tuple[Int32s, Int32s, Int32s]:
    """First and last partition and the subpartition that each consuming subtask of a pointwise edge reads."""
    narrowing = producers >= consumers
    first = subtask * producers // consumers
    fan_out = first_consumer(first + 1, producers, consumers) - first_consumer(first, producers, consumers)
    last = np.where(narrowing, (subtask + 1) * producers // consumers - 1, first)
    # A task that reads several partitions is the only one that reads them.
    return first, last, np.where(narrowing, 0, subtask % np.maximum(fan_out, 1))


def first_consumer(partition: Int32s, producers: Int32s, consumers: Int32s) -> Int32s:
    """The first consuming subtask of a partition where there are fewer producers than consumers."""
    first: Int32s = (partition * consumers + producers - 1) // producers
    return first
