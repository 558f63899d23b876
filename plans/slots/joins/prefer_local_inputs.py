"""Tasks share the slots of the tasks they read from: Flink's default."""

from pyspark.sql import DataFrame

from plans.slots.joins.slots_of_groups import share_slots
from plans.slots.prefer_local_inputs import prefer_producers_slots


def prefer_local_inputs(
    named_vertices: DataFrame, execution_job_vertices: DataFrame, connected_edges: DataFrame
) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    In: named_vertices (see number_co_location_groups), execution_job_vertices, connected_edges (see
    connect_vertices). Numbers count from 0 in a topology, in the order in which Flink creates the groups.

    Source: LocalInputPreferredSlotSharingStrategy of Flink 2.3. Its candidates and available groups are
    linked hash sets, in the order of producing tasks and of creation; so are they here. Its hash maps are
    looked up, never iterated.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    return share_slots(named_vertices, execution_job_vertices, connected_edges, prefer_producers_slots)
