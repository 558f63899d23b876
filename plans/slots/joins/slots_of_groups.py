"""Runs a slot sharing strategy over whole topologies."""

import pyarrow as pa
from pyspark.sql import DataFrame

from plans.execution_graph.joins.job_graph_arrays import (
    job_graph_arrays,
    job_graph_rows,
    task_numbers,
    task_numbers_batch,
)
from plans.joins.arrow_walks import walk_topologies
from plans.slots.slots_of_groups import Strategy

SLOTS = task_numbers("slots")


def share_slots(
    named_vertices: DataFrame,
    execution_job_vertices: DataFrame,
    connected_edges: DataFrame,
    strategy: Strategy,
) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask by `strategy`."""
    rows = job_graph_rows(named_vertices, execution_job_vertices, connected_edges)
    return walk_topologies(rows, [], lambda table: slot_numbers(table, strategy), SLOTS)


def slot_numbers(rows: pa.Table, strategy: Strategy) -> pa.RecordBatch:
    """Rows of share_slots for the job_graph_rows of whole topologies."""
    graph = job_graph_arrays(rows)
    return task_numbers_batch(graph, "slots", strategy(graph))
