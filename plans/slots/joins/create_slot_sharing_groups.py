"""The slot of each task, and the number of slots of each slot sharing group."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local, rename
from plans.tables.column_types import TOPOLOGY


def execution_slot_sharing_groups(task_slots: DataFrame, named_vertices: DataFrame) -> DataFrame:
    """One row per task (key topology_id, vertex, subtask): execution_slot_sharing_groups.

    In: task_slots (see the slot sharing strategies), named_vertices.

    Source: ExecutionSlotSharingGroup.

    Example: tasks of one number share a slot (tests/passes/fixtures/execution_slot_sharing_groups.txt).

        task_slots        -> execution_slot_sharing_groups
        vertex  slots        vertex  subtask  execution_slot_sharing_group
        1       [0, 1]       1       0        0
        3       [0, 1, 2]    1       1        1
                             3       0        0
                             3       1        1
                             3       2        2
    """
    groups = rename(named_vertices, of_vertex="vertex", slot_sharing_group="slot_sharing_group")
    return (
        join_local(task_slots, groups, {"vertex": "of_vertex"})
        .select(
            TOPOLOGY,
            "vertex",
            "slot_sharing_group",
            F.posexplode("slots").alias("subtask", "execution_slot_sharing_group"),
        )
        .select(TOPOLOGY, "vertex", "subtask", "slot_sharing_group", "execution_slot_sharing_group")
    )


def required_slots(task_slots: DataFrame, named_vertices: DataFrame) -> DataFrame:
    """One row per slot sharing group (key topology_id, slot_sharing_group): required_slots.

    In: task_slots (see the slot sharing strategies), named_vertices. A group has as many slots as its tasks
    were put into, which is the largest parallelism of its vertices unless co-location keeps tasks apart.

    Example: a group needs as many slots as its largest vertex has tasks
    (tests/passes/fixtures/required_slots.txt).

        task_slots           -> required_slots
        vertex  slots           slot_sharing_group  slots  tasks  vertices  largest_vertex
        1       [0, 1]          0                   3      3      1         3
        2       [0, 1, 2, 3]    1                   4      6      2         2
        3       [4, 5, 6]
    """
    vertices = rename(
        named_vertices,
        of_vertex="vertex",
        slot_sharing_group="slot_sharing_group",
        topological_order="topological_order",
    )
    tasks = F.size("slots")
    sized = join_local(task_slots, vertices, {"vertex": "of_vertex"})
    of_group = sized.groupBy(TOPOLOGY, "slot_sharing_group").agg(
        F.sum(tasks.cast("bigint")).alias("tasks"),
        F.count(F.lit(1)).cast("int").alias("vertices"),
        F.min(F.struct((-tasks).alias("fewer"), "topological_order", "vertex")).alias("first_by_size"),
    )
    # In two steps, because a list of all slots of a group may be very long.
    slots = sized.select(
        TOPOLOGY, F.col("slot_sharing_group").alias("in_group"), F.explode("slots").alias("slot")
    )
    counted = slots.distinct().groupBy(TOPOLOGY, "in_group").agg(F.count(F.lit(1)).cast("int").alias("slots"))
    return join_local(of_group, counted, {"slot_sharing_group": "in_group"}).select(
        TOPOLOGY,
        "slot_sharing_group",
        "slots",
        "tasks",
        "vertices",
        F.col("first_by_size.vertex").alias("largest_vertex"),
    )
