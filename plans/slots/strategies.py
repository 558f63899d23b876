"""The slot sharing strategies by name."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from penstock.plans.execution_graph.create_intermediate_results import partitions_of_subtask
from penstock.plans.execution_graph.job_graph_arrays import JobGraphArrays
from penstock.plans.frames.arrays import Flags, Ints, bounds_of, counts_from, counts_up, sums_before
from penstock.plans.frames.compiled import run_loop
from penstock.plans.vocabulary import SlotSharingStrategy

# Slot sharing groups as arrays, the input of slot sharing strategies.


Strategy = Callable[[JobGraphArrays], Ints]


class SlotSharingGroups(NamedTuple):
    """Slots of all slot sharing groups in one numbering, by topology, group and position in the group.

    A group has as many slots as its largest vertex has subtasks: tasks of one vertex never share a slot, and
    no vertex opens a slot while another one is free.
    """

    group_of_vertex: Ints  #: group per vertex, numbered by topology, then slot_sharing_group
    slots: Ints  #: number of slots per group
    first_slot: Ints  #: per vertex, the first slot of its group


def slot_sharing_groups(graph: JobGraphArrays) -> SlotSharingGroups:
    """Return the slot sharing groups of `graph`."""
    starts = np.flatnonzero(graph.first == np.arange(len(graph.first)))
    group_of_vertex = numbered_groups(starts, graph.slot_sharing_group)
    slots = np.zeros(group_of_vertex.max() + 1, dtype=np.int64)
    np.maximum.at(slots, group_of_vertex, graph.parallelism)
    return SlotSharingGroups(group_of_vertex, slots, sums_before(slots)[group_of_vertex])


def numbered_groups(starts: Ints, groups: Ints) -> Ints:
    """Return the number of each vertex's group, by topology and then by `groups`, which count from 0 in each.

    `starts`: the first vertex of each topology.
    """
    if not len(groups):
        return groups
    cells = np.maximum.reduceat(groups, starts) + 1
    lengths = np.diff(np.append(starts, len(groups)))
    own = np.repeat(sums_before(cells), lengths) + groups
    occurs = np.zeros(cells.sum(), dtype=np.int64)
    occurs[own] = 1
    numbers: Ints = (np.cumsum(occurs) - 1)[own]
    return numbers


def _co_location_keys(graph: JobGraphArrays, groups: SlotSharingGroups) -> list[int]:
    """Return a number for each vertex's co-location group, negative without one.

    Flink refuses a group that spans slot sharing groups; its topology is still planned, each part separately.
    """
    located = graph.co_location_group >= 0
    keys: list[int] = np.where(located, groups.group_of_vertex << 32 | graph.co_location_group, -1).tolist()
    return keys


# Assignment of tasks to the slots of their producers, over arrays.


_NONE = -1


def prefer_producers_slots(graph: JobGraphArrays) -> Ints:
    """Return the number of each task's slot.

    Vertices are visited in topological order. A subtask takes the slot of its co-location constraint, else
    the first free slot of its producers, input by input; the remaining subtasks take the oldest free slots,
    or new ones. As slots of a group are numbered by age and the remaining subtasks come last, these take the
    smallest free numbers.

    Source: LocalInputPreferredSlotSharingStrategy. Its candidates and available groups are linked hash sets,
    ordered by producing task and by creation, and are visited in these orders here. Its hash maps are looked
    up, never iterated.
    """
    groups = slot_sharing_groups(graph)
    inputs = _decisive_inputs(graph, groups)
    uneven = _uneven_vertices(graph, inputs)
    slots = counts_from(groups.first_slot, graph.parallelism)
    if uneven.any():
        _take_in_turn(graph, groups, inputs, np.flatnonzero(uneven), slots)
    numbers: Ints = _creation_numbers(graph, groups)[slots]
    return numbers


def _creation_numbers(graph: JobGraphArrays, groups: SlotSharingGroups) -> Ints:
    """Return each slot's number in creation order; a vertex creates the slots that its group lacks."""
    order = np.argsort(groups.group_of_vertex, kind="stable")
    parallelism, group = graph.parallelism[order], groups.group_of_vertex[order]
    above = (parallelism.max() + 1) * group
    largest = np.maximum.accumulate(parallelism + above) - above
    before = np.zeros_like(largest)
    before[1:] = np.where(group[1:] == group[:-1], largest[:-1], 0)
    created = np.zeros_like(largest)
    created[order] = largest - before
    numbers = sums_before(created)
    numbers -= numbers[graph.first]
    return counts_from(numbers[order], created[order])


class _Inputs(NamedTuple):
    """Edges that can decide the slots of a vertex's tasks, by target and input index."""

    sources: Ints
    targets: Ints
    all_to_all: Flags
    decided: Flags  #: per vertex: its single input has a free slot for every subtask


def _decisive_inputs(graph: JobGraphArrays, groups: SlotSharingGroups) -> _Inputs:
    """Return inputs from the same slot sharing group; only the first if it has a slot for every subtask.

    It has one if there are at least as many producers as consumers, since no slot is taken yet and no two
    producers share one.
    """
    edges = groups.group_of_vertex[graph.sources] == groups.group_of_vertex[graph.targets]
    sources, targets, all_to_all = graph.sources[edges], graph.targets[edges], graph.all_to_all[edges]
    first = np.ones(len(targets), dtype=np.bool_)
    first[1:] = targets[1:] != targets[:-1]
    decided = np.zeros(len(graph.vertices), dtype=np.bool_)
    decided[targets[first & (graph.parallelism[sources] >= graph.parallelism[targets])]] = True
    decided &= graph.co_location_group < 0
    counts = first | ~decided[targets]
    return _Inputs(sources[counts], targets[counts], all_to_all[counts], decided)


def _uneven_vertices(graph: JobGraphArrays, inputs: _Inputs) -> Flags:
    """Flag vertices whose subtask i may not be in slot i of their group.

    In all others it is: so are their producers' subtasks, and edges are all-to-all or connect equal subtasks.
    """
    uneven = graph.co_location_group >= 0
    unequal = graph.parallelism[inputs.sources] != graph.parallelism[inputs.targets]
    uneven[inputs.targets[unequal & ~inputs.all_to_all]] = True
    if not uneven.any():
        return uneven
    # Sources precede their targets, and edges are in the order of their targets.
    run_loop(_reach, len(inputs.targets), (inputs.sources, inputs.targets), (uneven,))
    return uneven


def _reach(sources: Ints, targets: Ints, reached: Flags) -> None:
    """Mark the targets of reached vertices as reached, in a compiled loop (see run_loop)."""
    for edge in range(len(targets)):
        if reached[sources[edge]]:
            reached[targets[edge]] = True


def _take_in_turn(
    graph: JobGraphArrays, groups: SlotSharingGroups, inputs: _Inputs, vertices: Ints, slots: Ints
) -> None:
    """Write the slots of the tasks of `vertices` (in topological order) into `slots`, which is per task.

    The slots of all other tasks are final already.
    """
    keys = np.array(_co_location_keys(graph, groups))
    located = keys >= 0
    keys[located] = np.unique(keys[located], return_inverse=True)[1]
    continues = inputs.all_to_all[1:] & inputs.all_to_all[:-1] & (inputs.targets[1:] == inputs.targets[:-1])
    offers = np.flatnonzero(np.concatenate(([True], ~continues))[: len(inputs.targets)])
    run_loop(
        _take,
        int(graph.parallelism[vertices].sum()),
        (
            vertices,
            graph.parallelism,
            sums_before(graph.parallelism),
            groups.first_slot,
            bounds_of(inputs.targets[offers], len(graph.vertices)),
            np.append(offers, len(inputs.targets)),
            inputs.sources,
            inputs.all_to_all,
            *_partitions_read(graph, inputs, vertices),
            keys,
        ),
        (
            slots,
            np.full(int(groups.slots.sum()), _NONE),
            offers.copy(),
            np.zeros(len(offers), np.int64),
            *(np.zeros(np.count_nonzero(located), np.int64) for _ in range(2)),
        ),
    )


def _partitions_read(graph: JobGraphArrays, inputs: _Inputs, vertices: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the partitions that subtasks of `vertices` read along pointwise inputs.

    Three arrays: per input the position of its first subtask in the other two; per subtask the first
    partition that it reads, and the one after the last.
    """
    is_uneven = np.zeros(len(graph.vertices), dtype=np.bool_)
    is_uneven[vertices] = True
    consumers = graph.parallelism[inputs.targets]
    counts = np.where(~inputs.all_to_all & is_uneven[inputs.targets], consumers, 0)
    producers = np.repeat(graph.parallelism[inputs.sources], counts)
    first, end = partitions_of_subtask(counts_up(counts), producers, np.repeat(consumers, counts))
    return sums_before(counts), first, end


def _take(  # noqa: PLR0912 - a loop that is compiled calls nothing
    vertices: Ints,
    parallelism: Ints,
    first_task: Ints,
    first_slot: Ints,
    bounds: Ints,
    offers: Ints,
    sources: Ints,
    all_to_all: Flags,
    reads: Ints,
    first_read: Ints,
    end_read: Ints,
    co_location: Ints,
    slots: Ints,
    taken_by: Ints,
    next_edge: Ints,
    next_candidate: Ints,
    located_task: Ints,
    located: Ints,
) -> None:
    """The compiled loop (see run_loop). An offer is one pointwise input, or adjacent inputs from all
    producers.

    State of the loop: the last vertex that took each slot; the input at which an offer from all producers
    continues, and the number of its producers tried (all subtasks read the same ones, and a slot once tried
    is taken); per co-location group the first task of its largest vertex so far, and its number of subtasks.
    """
    for vertex in vertices:
        consumers, own, key = parallelism[vertex], first_task[vertex], co_location[vertex]
        done = 0
        if key >= 0:
            done = min(located[key], consumers)
            for subtask in range(done):
                slots[own + subtask] = slots[located_task[key] + subtask]
                taken_by[slots[own + subtask]] = vertex
            if consumers > located[key]:
                located_task[key], located[key] = own, consumers
        for subtask in range(done, consumers):
            slot = _NONE
            for offer in range(bounds[vertex], bounds[vertex + 1]):
                edge = next_edge[offer]
                producers, first = parallelism[sources[edge]], first_task[sources[edge]]
                if all_to_all[edge]:
                    while slot == _NONE:
                        producers, first = parallelism[sources[edge]], first_task[sources[edge]]
                        place = next_candidate[offer]
                        while place < producers and taken_by[slots[first + place]] == vertex:
                            place += 1
                        next_candidate[offer] = place
                        if place < producers:
                            slot = slots[first + place]
                        elif edge + 1 < offers[offer + 1]:
                            next_candidate[offer] = 0
                            next_edge[offer] = edge + 1
                            edge += 1
                        else:
                            break
                else:
                    place, end = first_read[reads[edge] + subtask], end_read[reads[edge] + subtask]
                    while place < end and taken_by[slots[first + place]] == vertex:
                        place += 1
                    if place < end:
                        slot = slots[first + place]
                if slot != _NONE:
                    taken_by[slot] = vertex
                    break
            slots[own + subtask] = slot
        free = first_slot[vertex]
        for subtask in range(done, consumers):
            if slots[own + subtask] == _NONE:
                while taken_by[free] == vertex:
                    free += 1
                slots[own + subtask] = free
                free += 1


# Task-balanced: tasks are dealt to slots in turn.


def deal_in_turn(graph: JobGraphArrays) -> Ints:
    """Return the number of each task's slot: each vertex continues where the previous one of its group
    stopped.

    A vertex with a task for every slot begins at the first slot and does not count.

    Numbers count from 0 per topology, by slot_sharing_group and then in the order in which Flink creates the
    groups: Flink has slot sharing groups in a hash map with random ids as keys, so their order differs from
    run to run. Within a group, the order is defined. All other hash maps are looked up, never iterated.

    Source: TaskBalancedPreferredSlotSharingStrategy, TaskBalancedExecutionSlotSharingGroupBuilder.
    """
    groups = slot_sharing_groups(graph)
    sizes = groups.slots[groups.group_of_vertex]
    by_group = np.argsort(groups.group_of_vertex, kind="stable")
    counted = np.where(graph.parallelism == sizes, 0, graph.parallelism)
    before = sums_before(counted[by_group])
    first_of_group = np.searchsorted(groups.group_of_vertex[by_group], groups.group_of_vertex)
    begin = np.empty_like(before)
    begin[by_group] = before
    begin = np.where(graph.parallelism == sizes, 0, begin - before[first_of_group])
    turns = np.repeat(begin, graph.parallelism) + counts_up(graph.parallelism)
    places = turns % np.repeat(sizes, graph.parallelism)
    located = graph.co_location_group >= 0
    if located.any():
        walked = np.isin(groups.group_of_vertex, groups.group_of_vertex[located])
        tasks = np.repeat(walked, graph.parallelism)
        places[tasks] = _walk(graph, groups, np.flatnonzero(walked).tolist())
    first_of_topology = groups.first_slot.copy()
    np.minimum.at(first_of_topology, graph.first, groups.first_slot)
    first_slot = groups.first_slot - first_of_topology[graph.first]
    numbers: Ints = np.repeat(first_slot, graph.parallelism) + places
    return numbers


def _walk(graph: JobGraphArrays, groups: SlotSharingGroups, vertices: list[int]) -> list[int]:
    """Return the positions in their groups of the tasks of `vertices`, all vertices of some groups in
    topological order.

    A task whose co-location constraint has no slot yet takes the least loaded slot without a task of its
    vertex. A group's slots are a heap of load * size + position; an entry whose load differs from the slot's
    is stale.
    """
    parallelism, group_of = graph.parallelism.tolist(), groups.group_of_vertex.tolist()
    sizes, co_location = groups.slots.tolist(), _co_location_keys(graph, groups)
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
    """Pop the least loaded positions that are not left out, the first of equals first."""
    size = len(loads)
    chosen_places: list[int] = []
    skipped = []
    while len(chosen_places) < wanted:
        entry = heappop(heap)
        load, place = divmod(entry, size)
        if loads[place] != load:
            continue
        if place in left_out:
            skipped.append(entry)
        else:
            chosen_places.append(place)
    for entry in skipped:
        heappush(heap, entry)
    return chosen_places


def _least(heap: list[int], loads: list[int]) -> int:
    """Return the least loaded position, the first of equals."""
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
