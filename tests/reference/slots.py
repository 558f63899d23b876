"""Execution slot sharing groups (LocalInputPreferredSlotSharingStrategy)."""

from dataclasses import dataclass, field

from tests.reference.execution_graph import ExecutionGraph, consumed_partitions
from tests.reference.job_graph import JobGraph, JobVertex
from tests.reference.slot_groups import SlotGroups

Task = tuple[str, int]


@dataclass(eq=False)
class _Slots:
    """`slots` are tasks by number; `of_task` numbers them; `available` and `candidates` are ordered sets."""

    slots: list[list[Task]] = field(default_factory=list)
    of_task: dict[Task, int] = field(default_factory=dict)
    available: dict[str, dict[int, None]] = field(default_factory=dict)
    of_constraint: dict[tuple[int, int], int] = field(default_factory=dict)


def share_slots(job: JobGraph, groups: SlotGroups, execution: ExecutionGraph) -> list[str]:
    """Of each slot the tasks `vertex_subtask`, sorted; the list sorted."""
    slots = prefer_local_inputs(job, groups, execution)
    return sorted(" ".join(sorted(f"{v}_{i}" for v, i in tasks)) for tasks in slots)


def prefer_local_inputs(job: JobGraph, groups: SlotGroups, execution: ExecutionGraph) -> list[list[Task]]:
    """Tasks by slot, slots as they are created.

    Vertex by vertex: the co-located slot, else a producer's, else the oldest free one, else a new one.
    """
    state = _Slots()
    members: dict[int, list[str]] = {}
    for vertex in job.topological_order:
        members.setdefault(groups.slot_sharing[vertex.id], []).append(vertex.id)
        state.available[vertex.id] = {}
    for vertex in job.topological_order:
        remaining = []
        of_producers = _producer_candidates(vertex, groups, execution, state)
        co_location = groups.co_location.get(vertex.id)
        for i in range(execution.parallelism[vertex.id]):
            slot = state.of_constraint.get((co_location, i)) if co_location is not None else None
            if slot is None:
                slot = _take_candidate(of_producers, i, state.available[vertex.id])
            if slot is None:
                remaining.append(i)
            else:
                _put(state, vertex, i, slot)
        for i in remaining:
            slot = next(iter(state.available[vertex.id]), None)
            if slot is None:
                slot = len(state.slots)
                state.slots.append([])
                for member in members[groups.slot_sharing[vertex.id]]:
                    state.available[member][slot] = None
            _put(state, vertex, i, slot)
        if co_location is not None:
            for i in range(execution.parallelism[vertex.id]):
                state.of_constraint[co_location, i] = state.of_task[vertex.id, i]
    return state.slots


def _put(state: _Slots, vertex: JobVertex, subtask: int, slot: int) -> None:
    state.slots[slot].append((vertex.id, subtask))
    state.of_task[vertex.id, subtask] = slot
    state.available[vertex.id].pop(slot, None)


Candidates = tuple[list[tuple[int, int]], dict[tuple[int, int], dict[int, None]]]


def _producer_candidates(
    vertex: JobVertex, groups: SlotGroups, execution: ExecutionGraph, state: _Slots
) -> list[Candidates]:
    """For each input in the same slot sharing group: ranges by subtask, and the producers' slots by range."""
    found: list[Candidates] = []
    for edge in vertex.inputs:
        producer = edge.data_set.producer.id
        if groups.slot_sharing[producer] != groups.slot_sharing[vertex.id]:
            continue
        ranges = consumed_partitions(edge.data_set, execution.parallelism[vertex.id], execution.parallelism)
        slots = {
            r: dict.fromkeys(state.of_task[producer, p] for p in range(r[0], r[1] + 1)) for r in set(ranges)
        }
        found.append((ranges, slots))
    return found


def _take_candidate(inputs: list[Candidates], subtask: int, available: dict[int, None]) -> int | None:
    """Subtasks that read the same partitions share one list; every candidate looked at is struck from it."""
    for ranges, slots in inputs:
        candidates = slots[ranges[subtask]]
        while candidates:
            slot = next(iter(candidates))
            del candidates[slot]
            if slot in available:
                return slot
    return None
