"""Slots get equally many tasks, as far as that goes vertex by vertex."""

import polars as pl

from plans.columnar.slots.slots_of_groups import share_slots
from plans.slots.balance_tasks import deal_in_turn


def balance_tasks(
    named_vertices: pl.DataFrame, execution_job_vertices: pl.DataFrame, connected_edges: pl.DataFrame
) -> pl.DataFrame:
    """One row a job vertex (key topology_id, vertex): slots, one execution slot sharing group a subtask.

    As plans.slots.balance_tasks.
    """
    return share_slots(named_vertices, execution_job_vertices, connected_edges, deal_in_turn)
