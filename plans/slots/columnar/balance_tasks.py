"""Slots get equal numbers of tasks, as far as possible vertex by vertex."""

import polars as pl

from plans.slots.balance_tasks import deal_in_turn
from plans.slots.columnar.slots_of_groups import share_slots


def balance_tasks(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    Columns and source: see joins.balance_tasks.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    return share_slots(ordered_vertices, placed_edges, deal_in_turn)
