"""Tasks share the slots of the tasks they read from, as Flink 1.12 has it."""

import polars as pl

from plans.slots.columnar.slots_of_groups import share_slots
from plans.slots.prefer_local_inputs import prefer_producers_slots


def prefer_local_inputs_by_task(ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    Columns and source: see joins.prefer_local_inputs_by_task.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    return share_slots(ordered_vertices, placed_edges, prefer_producers_slots)
