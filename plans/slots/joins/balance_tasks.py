"""Slots get equal numbers of tasks, as far as possible vertex by vertex."""

from pyspark.sql import DataFrame

from plans.slots.balance_tasks import deal_in_turn
from plans.slots.joins.slots_of_groups import share_slots


def balance_tasks(
    named_vertices: DataFrame, execution_job_vertices: DataFrame, connected_edges: DataFrame
) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    In: named_vertices (see number_co_location_groups), execution_job_vertices; connected_edges say nothing
    here. Numbers count from 0 in a topology, by slot_sharing_group and then as Flink creates the groups:
    Flink 2.3 has slot sharing groups in a hash map whose keys are random ids, so that their order is another
    in each run. Within one, the order is defined. All other hash maps are looked up, never iterated.

    Source: TaskBalancedPreferredSlotSharingStrategy, TaskBalancedExecutionSlotSharingGroupBuilder.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    return share_slots(named_vertices, execution_job_vertices, connected_edges, deal_in_turn)
