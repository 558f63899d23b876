"""What the slot sharing strategies share."""

import polars as pl

from plans.columnar.execution_graph.job_graph_arrays import job_graph_rows
from plans.columnar.frames import walk
from plans.slots.slots_of_groups import SLOTS, Strategy, slot_numbers


def share_slots(
    named_vertices: pl.DataFrame,
    execution_job_vertices: pl.DataFrame,
    connected_edges: pl.DataFrame,
    strategy: Strategy,
) -> pl.DataFrame:
    """One row a job vertex (key topology_id, vertex): slots, the slot of each subtask by `strategy`.

    As plans.slots.slots_of_groups.
    """
    rows = job_graph_rows(named_vertices, execution_job_vertices, connected_edges)
    return walk(rows, [], lambda table: slot_numbers(table, strategy), SLOTS)
