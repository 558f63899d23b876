"""The slot of each task under a slot sharing strategy, and the number of slots of each group."""

import numpy as np
import polars as pl

from penstock.plans.execution_graph.create_intermediate_results import explode_subtasks
from penstock.plans.execution_graph.job_graph_arrays import job_graph_arrays, with_task_numbers
from penstock.plans.frames.arrays import runs
from penstock.plans.frames.polars_frames import ints
from penstock.plans.slots.strategies import STRATEGIES, numbered_groups
from penstock.plans.tables import EXECUTION_SLOT_SHARING_GROUPS, REQUIRED_SLOTS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SlotSharingStrategy


def execution_slot_sharing_groups(task_slots: pl.DataFrame, ordered_vertices: pl.DataFrame) -> pl.DataFrame:
    """Return execution_slot_sharing_groups, one row per task (key topology_id, vertex, subtask).

    In: task_slots, with rows in the order of ordered_vertices.

    Source: ExecutionSlotSharingGroup.

    Example: tests/passes/fixtures/execution_slot_sharing_groups.txt.
    """
    return slots_of_tasks(task_slots.with_columns(ordered_vertices["slot_sharing_group"]))


def slots_of_tasks(grouped_slots: pl.DataFrame) -> pl.DataFrame:
    """execution_slot_sharing_groups from rows of task_slots with their slot_sharing_group.

    Example: tests/passes/fixtures/execution_slot_sharing_groups.txt.
    """
    return explode_subtasks(grouped_slots, "slots", "execution_slot_sharing_group").select(
        EXECUTION_SLOT_SHARING_GROUPS.names
    )


def required_slots(ordered_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row per slot sharing group (key topology_id, slot_sharing_group).

    In: ordered_vertices (see order_job_vertices). Slots follow from parallelism, because every strategy
    assigns the tasks of a group to as many slots as its largest vertex has tasks (see
    strategies.SlotSharingGroups).

    Example: tests/passes/fixtures/required_slots.txt.
    """
    tasks = ints(ordered_vertices, "parallelism")
    of_topologies = runs(ordered_vertices[TOPOLOGY].to_numpy())
    group_of_vertex = numbered_groups(of_topologies.starts, ints(ordered_vertices, "slot_sharing_group"))
    vertices = np.bincount(group_of_vertex)
    slots, sums, largest = (
        np.zeros_like(vertices),
        np.zeros_like(vertices),
        np.full_like(vertices, len(tasks)),
    )
    np.maximum.at(slots, group_of_vertex, tasks)
    np.add.at(sums, group_of_vertex, tasks)
    as_large = np.flatnonzero(tasks == slots[group_of_vertex])
    np.minimum.at(largest, group_of_vertex[as_large], as_large)
    largest_rows = ordered_vertices.select(
        pl.col(TOPOLOGY, "slot_sharing_group", "vertex").gather(pl.Series(values=largest.astype(np.uint32)))
    )
    return largest_rows.select(
        TOPOLOGY,
        "slot_sharing_group",
        pl.Series("slots", slots, pl.Int32),
        pl.Series("tasks", sums),
        pl.Series("vertices", vertices, pl.Int32),
        pl.col("vertex").alias("largest_vertex"),
    ).select(REQUIRED_SLOTS.names)


def share_slots(
    ordered_vertices: pl.DataFrame, placed_edges: pl.DataFrame, *, slot_sharing_strategy: SlotSharingStrategy
) -> pl.DataFrame:
    """Return `slots`, the slot of each subtask, one row per job vertex (key topology_id,
    vertex).

    In: ordered_vertices, placed_edges (see job_graph_arrays). Out: rows in the order of ordered_vertices.
    Slots are numbered from 0 in a topology.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    if ordered_vertices.is_empty():
        return with_task_numbers(ordered_vertices, "slots", np.zeros(0, np.int64))
    slots = STRATEGIES[slot_sharing_strategy](job_graph_arrays(ordered_vertices, placed_edges))
    return with_task_numbers(ordered_vertices, "slots", slots)
