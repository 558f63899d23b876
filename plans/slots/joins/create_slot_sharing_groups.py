"""The slot of each task, and the number of slots of each slot sharing group."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local, rename
from plans.tables.column_types import TOPOLOGY


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
