"""The balanced slot sharing strategy: tasks (vertex id, subtask) by slot, as it makes slots."""

from tests.reference.execution_graph import ExecutionGraph
from tests.reference.job_graph import JobGraph
from tests.reference.slot_groups import SlotGroups

Task = tuple[str, int]


def balance_tasks(job: JobGraph, groups: SlotGroups, execution: ExecutionGraph) -> list[list[Task]]:
    """TaskBalancedExecutionSlotSharingGroupBuilder; groups by number, as Flink's order of them is random."""
    slots_of_group: dict[int, list[list[Task]]] = {}
    for number in sorted(set(groups.slot_sharing.values())):
        members = [v for v, group in groups.slot_sharing.items() if group == number]
        slots_of_group[number] = [[] for _ in range(max(execution.parallelism[v] for v in members))]
    next_index: dict[int, int] = {}
    of_constraint: dict[tuple[int, int], list[Task]] = {}
    for vertex in job.topological_order:
        group = groups.slot_sharing[vertex.id]
        slots, subtasks = slots_of_group[group], execution.parallelism[vertex.id]
        widest = subtasks == len(slots)
        co_location = groups.co_location.get(vertex.id)
        if co_location is None:
            index = 0 if widest else next_index.get(group, 0)
            for i in range(subtasks):
                slots[index].append((vertex.id, i))
                index = (index + 1) % len(slots)
        else:
            for i in range(subtasks):
                if (co_location, i) not in of_constraint:
                    without = [s for s in slots if vertex.id not in [v for v, _ in s]]
                    of_constraint[co_location, i] = min(without, key=len)
                of_constraint[co_location, i].append((vertex.id, i))
            index = slots.index(min(slots, key=len))
        if not widest:
            next_index[group] = index
    return [slot for number in sorted(slots_of_group) for slot in slots_of_group[number]]
