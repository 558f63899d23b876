"""Slots get equal numbers of tasks, as far as possible vertex by vertex."""

import polars as pl

from plans.slots.balance_tasks import deal_in_turn
from plans.slots.columnar.slots_of_groups import share_slots


def balance_tasks(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    Columns and source: see joins.balance_tasks.

    Example: dealt out in turn, vertices go on where the one before stopped
    (tests/passes/fixtures/task_slots.txt).

        named_vertices                                  execution_job_vertices -> task_slots
        vertex  topological_order  slot_sharing_group   vertex  parallelism       vertex  slots
        1       0                  0                    1       3                 1       [0, 1, 2]
        3       1                  0                    3       5                 3       [0, 1, 2, 3, 4]
        5       2                  0                    5       3                 5       [3, 4, 0]
    """
    return share_slots(ordered_vertices, placed_edges, deal_in_turn)
