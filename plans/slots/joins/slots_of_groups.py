"""Runs a slot sharing strategy over whole topologies."""

from collections.abc import Iterator

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
    job_vertices: DataFrame,
    execution_job_vertices: DataFrame,
    connected_edges: DataFrame,
    *,
    strategy: Strategy,
) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask by `strategy`.

    In: job_vertices (see number_co_location_groups), execution_job_vertices, connected_edges (see
    connect_vertices). Slots are numbered from 0 in a topology.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    parts = job_graph_rows(job_vertices, execution_job_vertices, connected_edges)
    return walk_topologies(parts, lambda vertices, edges: slot_numbers(vertices, edges, strategy), SLOTS)


def slot_numbers(vertices: pa.Table, edges: pa.Table, strategy: Strategy) -> Iterator[pa.RecordBatch]:
    """Rows of share_slots for the job_graph_rows of whole topologies."""
    graph = job_graph_arrays(vertices, edges)
    yield task_numbers_batch(graph, "slots", strategy(graph))
