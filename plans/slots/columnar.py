"""The slot of each task by a slot sharing strategy, and the number of slots of each group."""

import numpy as np
import polars as pl

from penstock.plans.execution_graph.columnar.create_intermediate_results import explode_subtasks
from penstock.plans.execution_graph.columnar.job_graph_arrays import job_graph_arrays, with_task_numbers
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_frames import ints
from penstock.plans.slots.strategies import Strategy, numbered_groups
from penstock.plans.tables import EXECUTION_SLOT_SHARING_GROUPS, REQUIRED_SLOTS
from penstock.plans.tables.column_types import TOPOLOGY


def execution_slot_sharing_groups(task_slots: pl.DataFrame, ordered_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per task (key topology_id, vertex, subtask): execution_slot_sharing_groups.

    In: task_slots, whose rows are those of ordered_vertices.

    Source: ExecutionSlotSharingGroup.

    Example: tests/passes/fixtures/execution_slot_sharing_groups.txt.
    """
    return slots_of_tasks(task_slots.with_columns(ordered_vertices["slot_sharing_group"]))


def slots_of_tasks(grouped_slots: pl.DataFrame) -> pl.DataFrame:
    """execution_slot_sharing_groups of rows of task_slots with their slot_sharing_group.

    Example: tests/passes/fixtures/execution_slot_sharing_groups.txt.
    """
    return explode_subtasks(grouped_slots, "slots", "execution_slot_sharing_group").select(
        EXECUTION_SLOT_SHARING_GROUPS.names
    )


def required_slots(ordered_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per slot sharing group (key topology_id, slot_sharing_group).

    In: ordered_vertices (see order_job_vertices). As in joins.create_slot_sharing_groups, where slots are
    counted: every strategy puts the tasks of a group into as many as its largest vertex has (see
    joins.slots_of_groups.SlotSharingGroups).

    Example: tests/passes/fixtures/required_slots.txt.
    """
    tasks = ints(ordered_vertices, "parallelism")
    of_topologies = runs(ordered_vertices[TOPOLOGY].to_numpy())
    of_vertex = numbered_groups(of_topologies.starts, ints(ordered_vertices, "slot_sharing_group"))
    vertices = np.bincount(of_vertex)
    slots, sums, largest = (
        np.zeros_like(vertices),
        np.zeros_like(vertices),
        np.full_like(vertices, len(tasks)),
    )
    np.maximum.at(slots, of_vertex, tasks)
    np.add.at(sums, of_vertex, tasks)
    as_large = np.flatnonzero(tasks == slots[of_vertex])
    np.minimum.at(largest, of_vertex[as_large], as_large)
    of_largest = ordered_vertices.select(
        pl.col(TOPOLOGY, "slot_sharing_group", "vertex").gather(pl.Series(values=largest.astype(np.uint32)))
    )
    return of_largest.select(
        TOPOLOGY,
        "slot_sharing_group",
        pl.Series("slots", slots, pl.Int32),
        pl.Series("tasks", sums),
        pl.Series("vertices", vertices, pl.Int32),
        pl.col("vertex").alias("largest_vertex"),
    ).select(REQUIRED_SLOTS.names)


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
