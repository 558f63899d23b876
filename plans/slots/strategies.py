"""The slot sharing strategies by name; both planners run the same walks."""

from heapq import heappop, heappush

import numpy as np

from penstock.plans.execution_graph.job_graph_arrays import JobGraphArrays
from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.counts import counts_up, sums_before
from penstock.plans.slots.prefer_local_inputs import prefer_producers_slots
from penstock.plans.slots.slots_of_groups import (
    SlotSharingGroups,
    Strategy,
    co_location_keys,
    slot_sharing_groups,
)
from penstock.plans.vocabulary import SlotSharingStrategy

# Task-balanced: tasks are dealt to slots in turn.


def deal_in_turn(graph: JobGraphArrays) -> Ints:
    """The number of each task's slot: each vertex goes on where the one before it in its group stopped.

    A vertex with a task for every slot begins at the first and does not count.

    Numbers count from 0 in a topology, by slot_sharing_group and then as Flink creates the groups: Flink has
    slot sharing groups in a hash map whose keys are random ids, so that their order is another in each run.
    Within one, the order is defined. All other hash maps are looked up, never iterated.

    Source: TaskBalancedPreferredSlotSharingStrategy, TaskBalancedExecutionSlotSharingGroupBuilder.
    """
    groups = slot_sharing_groups(graph)
    sizes = groups.slots[groups.of_vertex]
    by_group = np.argsort(groups.of_vertex, kind="stable")
    counted = np.where(graph.parallelism == sizes, 0, graph.parallelism)
    before = sums_before(counted[by_group])
    first_of_group = np.searchsorted(groups.of_vertex[by_group], groups.of_vertex)
    begin = np.empty_like(before)
    begin[by_group] = before
    begin = np.where(graph.parallelism == sizes, 0, begin - before[first_of_group])
    turns = np.repeat(begin, graph.parallelism) + counts_up(graph.parallelism)
    places = turns % np.repeat(sizes, graph.parallelism)
    located = graph.co_location_group >= 0
    if located.any():
        walked = np.isin(groups.of_vertex, groups.of_vertex[located])
        tasks = np.repeat(walked, graph.parallelism)
        places[tasks] = _walk(graph, groups, np.flatnonzero(walked).tolist())
    first_of_topology = groups.first_slot.copy()
    np.minimum.at(first_of_topology, graph.first, groups.first_slot)
    first_slot = groups.first_slot - first_of_topology[graph.first]
    numbers: Ints = np.repeat(first_slot, graph.parallelism) + places
    return numbers


def _walk(graph: JobGraphArrays, groups: SlotSharingGroups, vertices: list[int]) -> list[int]:
    """Places in their group of the tasks of `vertices`, in topological order: all vertices of some groups.

    A task whose co-location constraint has no slot yet takes the least loaded without a task of its vertex.
    A group's slots are a heap of load * size + place; an entry whose load is not the slot's is out of date.
    """
    parallelism, group_of = graph.parallelism.tolist(), groups.of_vertex.tolist()
    sizes, co_location = groups.slots.tolist(), co_location_keys(graph, groups)
    loads_of: dict[int, list[int]] = {}
    heaps: dict[int, list[int]] = {}
    next_place: dict[int, int] = {}
    constraints: dict[int, list[int]] = {}
    task_places: list[int] = []
    for vertex in vertices:
        group, subtasks, key = group_of[vertex], parallelism[vertex], co_location[vertex]
        size = sizes[group]
        if group not in heaps:
            loads_of[group], heaps[group] = [0] * size, list(range(size))
        loads, heap = loads_of[group], heaps[group]
        if key < 0:
            begin = 0 if subtasks == size else next_place.get(group, 0)
            places = [place % size for place in range(begin, begin + subtasks)]
        else:
            places = constraints.setdefault(key, [])
            places += _least_loaded(heap, loads, set(places), subtasks - len(places))
            places = places[:subtasks]
        for place in places:
            loads[place] += 1
            heappush(heap, loads[place] * size + place)
        if subtasks < size:
            next_place[group] = (places[-1] + 1) % size if key < 0 else _least(heap, loads)
        task_places += places
    return task_places


def _least_loaded(heap: list[int], loads: list[int], left_out: set[int], wanted: int) -> list[int]:
    """The least loaded places that are not left out, the first of equals first; taken off the heap."""
    size = len(loads)
    chosen_places: list[int] = []
    kept = []
    while len(chosen_places) < wanted:
        entry = heappop(heap)
        load, place = divmod(entry, size)
        if loads[place] != load:
            continue
        if place in left_out:
            kept.append(entry)
        else:
            chosen_places.append(place)
    for entry in kept:
        heappush(heap, entry)
    return chosen_places


def _least(heap: list[int], loads: list[int]) -> int:
    """The least loaded place, the first of equals."""
    while True:
        load, place = divmod(heap[0], len(loads))
        if loads[place] == load:
            return place
        heappop(heap)


# The strategies by name.


STRATEGIES: dict[SlotSharingStrategy, Strategy] = {
    SlotSharingStrategy.LOCAL_INPUT_PREFERRED: prefer_producers_slots,
    SlotSharingStrategy.TASK_BALANCED_PREFERRED: deal_in_turn,
}
