"""The slot of each task by a slot sharing strategy, and the number of slots of each group."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.execution_graph.joins.job_graph_arrays import (
    job_graph_arrays,
    job_graph_rows,
    task_numbers,
    task_numbers_batch,
)
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.frames.spark_walks import walk_topologies
from penstock.plans.slots.strategies import Strategy
from penstock.plans.tables.column_types import TOPOLOGY


def grouped_slots(task_slots: DataFrame, job_vertices: DataFrame) -> DataFrame:
    """The rows of task_slots (see the slot sharing strategies) with the slot_sharing_group of the vertex."""
    groups = rename(job_vertices, of_vertex="vertex", slot_sharing_group="slot_sharing_group")
    return join_local(task_slots, groups, {"vertex": "of_vertex"})


def required_slots(task_slots: DataFrame, job_vertices: DataFrame) -> DataFrame:
    """One row per slot sharing group (key topology_id, slot_sharing_group): required_slots.

    In: task_slots (see the slot sharing strategies), job_vertices. Every strategy puts the tasks of a group
    into as many slots as its largest vertex has tasks (see plans.slots.slots_of_groups).

    Example: tests/passes/fixtures/required_slots.txt.
    """
    vertices = rename(
        job_vertices,
        of_vertex="vertex",
        slot_sharing_group="slot_sharing_group",
        topological_order="topological_order",
    )
    tasks = F.size("slots")
    sized = join_local(task_slots, vertices, {"vertex": "of_vertex"})
    return (
        sized.groupBy(TOPOLOGY, "slot_sharing_group")
        .agg(
            F.max(tasks).alias("slots"),
            F.sum(tasks.cast("bigint")).alias("tasks"),
            F.count(F.lit(1)).cast("int").alias("vertices"),
            F.min(F.struct((-tasks).alias("fewer"), "topological_order", "vertex")).alias("first_by_size"),
        )
        .select(
            TOPOLOGY,
            "slot_sharing_group",
            "slots",
            "tasks",
            "vertices",
            F.col("first_by_size.vertex").alias("largest_vertex"),
        )
    )


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
