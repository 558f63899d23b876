"""Slots get equally many tasks, as far as that goes vertex by vertex."""

import polars as pl

from plans.slots.balance_tasks import deal_in_turn
from plans.slots.columnar.slots_of_groups import share_slots


def balance_tasks(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row a job vertex (key topology_id, vertex): slots, one execution slot sharing group a subtask.

    As joins.balance_tasks.
    """
    return share_slots(ordered_vertices, placed_edges, deal_in_turn)
