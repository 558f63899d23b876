"""Tasks share the slots of the tasks they read from, as Flink 1.12 has it."""

from pyspark.sql import DataFrame

from plans.slots.joins.slots_of_groups import share_slots
from plans.slots.prefer_local_inputs import prefer_producers_slots


def prefer_local_inputs_by_task(
    named_vertices: DataFrame, execution_job_vertices: DataFrame, connected_edges: DataFrame
) -> DataFrame:
    """One row per job vertex (key topology_id, vertex): slots, the slot of each subtask.

    In and out as for prefer_local_inputs, and the slots are the same. Flink 1.12.7 asks the producers of each
    task for itself, where Flink 2.3 lets tasks that read the same partitions share a list of candidates and
    strikes off those it has looked at. One that is struck off is taken by a task of the vertex and stays so:
    what a task finds free is the same. Slots that Flink 1.12.7 itself chooses may differ, because it connects
    pointwise edges by single precision fractions (ExecutionVertex.connectPointwise): those of 14 to 16
    subtasks, for example.

    Source: LocalInputPreferredSlotSharingStrategy of Flink 1.12.7.

    Example: tests/passes/fixtures/task_slots.txt.
    """
    return share_slots(named_vertices, execution_job_vertices, connected_edges, prefer_producers_slots)
