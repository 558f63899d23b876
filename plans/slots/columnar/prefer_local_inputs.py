"""Tasks share the slots of the tasks they read from: Flink's default."""

import polars as pl

from plans.slots.columnar.slots_of_groups import share_slots
from plans.slots.prefer_local_inputs import prefer_producers_slots


def prefer_local_inputs(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    Columns and source: see joins.prefer_local_inputs.

    Example: a task of a pointwise edge is in the slot of the first task that it reads
    (tests/passes/fixtures/task_slots.txt).

        connected_edges                              execution_job_vertices -> task_slots
        source_vertex  target_vertex  distribution   vertex  parallelism       vertex  slots
        1              3              POINTWISE      1       5                 1       [0, 1, 2, 3, 4]
                                                     3       2                 3       [0, 2]
    """
    return share_slots(ordered_vertices, placed_edges, prefer_producers_slots)
