"""Tasks share the slots of the tasks they read from, as Flink 1.12 has it."""

import polars as pl

from plans.slots.columnar.slots_of_groups import share_slots
from plans.slots.prefer_local_inputs import prefer_producers_slots


def prefer_local_inputs_by_task(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    Columns and source: see joins.prefer_local_inputs_by_task.

    Example: by task, as Flink did before consumers shared lists of slots
    (tests/passes/fixtures/task_slots.txt).

        named_vertices                                  execution_job_vertices -> task_slots
        vertex  topological_order  slot_sharing_group   vertex  parallelism       vertex  slots
        1       0                  0                    1       3                 1       [0, 1, 2]
        3       1                  0                    3       2                 3       [0, 1]
        5       2                  0                    5       4                 5       [0, 1, 2, 3]
    """
    return share_slots(ordered_vertices, placed_edges, prefer_producers_slots)
