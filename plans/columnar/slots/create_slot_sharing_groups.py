"""Who shares a slot, and how many slots that takes."""

import polars as pl

from plans.columnar.execution_graph.create_execution_vertices import of_subtasks
from plans.columnar.frames import TOPOLOGY, join_topology, rename
from plans.schema import EXECUTION_SLOT_SHARING_GROUPS, REQUIRED_SLOTS

_GROUP = (TOPOLOGY, "slot_sharing_group")


def execution_slot_sharing_groups(task_slots: pl.DataFrame, named_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row a task (key topology_id, vertex, subtask). As plans.slots.create_slot_sharing_groups."""
    groups = rename(named_vertices, vertex="vertex", slot_sharing_group="slot_sharing_group")
    grouped = join_topology(task_slots, groups, {"vertex": "vertex"})
    return of_subtasks(grouped, "slots", "execution_slot_sharing_group").select(
        EXECUTION_SLOT_SHARING_GROUPS.names
    )


def required_slots(task_slots: pl.DataFrame, named_vertices: pl.DataFrame) -> pl.DataFrame:
    """One row a slot sharing group (key topology_id, slot_sharing_group).

    As plans.slots.create_slot_sharing_groups.
    """
    vertices = named_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group", "topological_order")
    tasks = pl.col("tasks")
    sized = join_topology(task_slots, vertices, {"vertex": "vertex"}).with_columns(
        pl.col("slots").list.len().cast(pl.Int64).alias("tasks")
    )
    largest_first = sized.sort(*_GROUP, -tasks, "topological_order")
    of_groups = largest_first.group_by(_GROUP, maintain_order=True).agg(
        pl.col("slots").explode().n_unique().cast(pl.Int32),
        tasks.sum(),
        pl.len().cast(pl.Int32).alias("vertices"),
        pl.col("vertex").first().alias("largest_vertex"),
    )
    return of_groups.select(REQUIRED_SLOTS.names)
