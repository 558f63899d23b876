"""The other slot sharing strategies: Flink 2.3's balanced one, and what Flink 1.12.7 had.

Both give tasks (vertex id, subtask) by slot, slots in the order in which the strategy makes them.
"""

from tests.reference.execution_graph import ExecutionGraph, consumed_partitions
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


def prefer_local_inputs_of_1_12(
    job: JobGraph, groups: SlotGroups, execution: ExecutionGraph
) -> list[list[Task]]:
    """LocalInputPreferredSlotSharingStrategy of 1.12.7, on the edges that Flink 2.3 makes between tasks."""
    slots: list[list[Task]] = []
    slots_of_group: dict[int, list[int]] = {}
    of_task: dict[Task, int] = {}
    of_constraint: dict[tuple[int, int], int] = {}
    vertices_in: dict[int, set[str]] = {}
    for vertex in job.topological_order:
        group, co_location = groups.slot_sharing[vertex.id], groups.co_location.get(vertex.id)
        subtasks = execution.parallelism[vertex.id]
        of_group = slots_of_group.setdefault(group, [])
        consumed: list[list[int]] = [[] for _ in range(subtasks)]
        for edge in vertex.inputs:
            producer = edge.data_set.producer.id
            if groups.slot_sharing[producer] == group:
                ranges = consumed_partitions(edge.data_set, subtasks, execution.parallelism)
                for i, (first, last) in enumerate(ranges):
                    consumed[i] += [of_task[producer, p] for p in range(first, last + 1)]
        remaining = []
        for i in range(subtasks):
            slot = of_constraint.get((co_location, i)) if co_location is not None else None
            if slot is None:
                slot = next((s for s in consumed[i] if vertex.id not in vertices_in[s]), None)
            if slot is None:
                remaining.append(i)
            else:
                _put((vertex.id, i), slot, slots, of_task, vertices_in)
        for i in remaining:
            slot = next((s for s in of_group if vertex.id not in vertices_in[s]), None)
            if slot is None:
                slot = len(slots)
                slots.append([])
                of_group.append(slot)
            _put((vertex.id, i), slot, slots, of_task, vertices_in)
        if co_location is not None:
            for i in range(subtasks):
                of_constraint[co_location, i] = of_task[vertex.id, i]
    return slots


def _put(
    task: Task, slot: int, slots: list[list[Task]], of_task: dict[Task, int], vertices_in: dict[int, set[str]]
) -> None:
    slots[slot].append(task)
    of_task[task] = slot
    vertices_in.setdefault(slot, set()).add(task[0])
