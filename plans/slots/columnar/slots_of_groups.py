"""Runs a slot sharing strategy over whole topologies."""

import numpy as np
import polars as pl

from plans.execution_graph.columnar.job_graph_arrays import job_graph_arrays, with_task_numbers
from plans.slots.slots_of_groups import Strategy


def share_slots(
    ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame, *, strategy: Strategy
) -> pl.DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask by `strategy`.

    As in joins.slots_of_groups; rows are those of ordered_vertices.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    if ordered_vertices.is_empty():
        return with_task_numbers(ordered_vertices, "slots", np.zeros(0, np.int64))
    slots = strategy(job_graph_arrays(ordered_vertices, placed_edges))
    return with_task_numbers(ordered_vertices, "slots", slots)
