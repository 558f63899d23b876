"""Tasks share the slots of the tasks they read from: Flink's default."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame

from plans.arrow_walks import Ints
from plans.execution_graph.job_graph_arrays import (
    Flags,
    JobGraphArrays,
    bounds_of,
    counts_up,
    sums_before,
)
from plans.slots.slots_of_groups import SlotSharingGroups, co_location_keys, share_slots, slot_sharing_groups

Slots = Sequence[int]


def prefer_local_inputs(
    named_vertices: DataFrame, execution_job_vertices: DataFrame, connected_edges: DataFrame
) -> DataFrame:
    """One row a job vertex (key topology_id, vertex): slots, one execution slot sharing group a subtask.

    In: named_vertices (see number_co_location_groups), execution_job_vertices, connected_edges (see
    connect_vertices). Numbers count from 0 in a topology, in the order in which Flink creates the groups.

    Source: LocalInputPreferredSlotSharingStrategy of Flink 2.3. Its candidates and available groups are
    linked hash sets, in the order of producing tasks and of creation; so are they here. Its hash maps are
    looked up, never iterated.
    """
    return share_slots(named_vertices, execution_job_vertices, connected_edges, prefer_producers_slots)


def prefer_producers_slots(graph: JobGraphArrays) -> Ints:
    """Per task the number of its slot.

    Vertices one after the other in topological order: a subtask takes the slot of its co-location constraint,
    else the first of its producers' slots that is free, input by input; those left over take the oldest free
    slots, or new ones. As slots of a group are numbered by age and the left over come last, they take the
    smallest numbers that are not taken.
    """
    groups = slot_sharing_groups(graph)
    inputs = _decisive_inputs(graph, groups)
    uneven = _uneven_vertices(graph, inputs)
    slots = np.repeat(groups.first_slot, graph.parallelism) + counts_up(graph.parallelism)
    if uneven.any():
        walked = _walk(graph, groups, inputs, np.flatnonzero(uneven).tolist())
        tasks = np.repeat(uneven, graph.parallelism)
        slots[tasks] = np.fromiter(walked, np.int64, int(np.count_nonzero(tasks)))
    numbers: Ints = _creation_numbers(graph, groups)[slots]
    return numbers


def _creation_numbers(graph: JobGraphArrays, groups: SlotSharingGroups) -> Ints:
    """Per slot its number by creation: a vertex creates those that it needs beyond the largest before it."""
    order = np.argsort(groups.of_vertex, kind="stable")
    parallelism, group = graph.parallelism[order], groups.of_vertex[order]
    above = (parallelism.max() + 1) * group
    largest = np.maximum.accumulate(parallelism + above) - above
    before = np.zeros_like(largest)
    before[1:] = np.where(group[1:] == group[:-1], largest[:-1], 0)
    created = np.zeros_like(largest)
    created[order] = largest - before
    numbers = sums_before(created)
    numbers -= numbers[graph.first]
    return np.repeat(numbers[order], created[order]) + counts_up(created[order])


class _Inputs(NamedTuple):
    """Edges that can decide where a vertex's tasks go, by target and input index."""

    sources: Ints
    targets: Ints
    all_to_all: Flags
    decided: Flags  #: per vertex: its one input has a free slot for every subtask


def _decisive_inputs(graph: JobGraphArrays, groups: SlotSharingGroups) -> _Inputs:
    """Inputs from the same slot sharing group; the first alone where it has a slot for every subtask.

    It has if there are not fewer producers than consumers, since no slot is taken before and no two producers
    share one.
    """
    edges = groups.of_vertex[graph.sources] == groups.of_vertex[graph.targets]
    sources, targets, all_to_all = graph.sources[edges], graph.targets[edges], graph.all_to_all[edges]
    first = np.ones(len(targets), dtype=np.bool_)
    first[1:] = targets[1:] != targets[:-1]
    decided = np.zeros(len(graph.vertices), dtype=np.bool_)
    decided[targets[first & (graph.parallelism[sources] >= graph.parallelism[targets])]] = True
    decided &= graph.co_location_group < 0
    kept = first | ~decided[targets]
    return _Inputs(sources[kept], targets[kept], all_to_all[kept], decided)


def _uneven_vertices(graph: JobGraphArrays, inputs: _Inputs) -> Flags:
    """Vertices whose subtask i may not be in slot i of their group.

    In all others it is: their producers' are, and edges are all-to-all or connect equal subtasks.
    """
    uneven = graph.co_location_group >= 0
    unequal = graph.parallelism[inputs.sources] != graph.parallelism[inputs.targets]
    uneven[inputs.targets[unequal & ~inputs.all_to_all]] = True
    if not uneven.any():
        return uneven
    by_source = np.argsort(inputs.sources, kind="stable")
    targets = inputs.targets[by_source].tolist()
    bounds = bounds_of(inputs.sources, len(uneven)).tolist()
    reached = bytearray(uneven.tobytes())
    stack = np.flatnonzero(uneven).tolist()
    while stack:
        vertex = stack.pop()
        for target in targets[bounds[vertex] : bounds[vertex + 1]]:
            if not reached[target]:
                reached[target] = 1
                stack.append(target)
    return np.frombuffer(reached, dtype=np.bool_)


def _walk(
    graph: JobGraphArrays, groups: SlotSharingGroups, inputs: _Inputs, vertices: list[int]
) -> Iterator[int]:
    """Slots of the tasks of `vertices`, which are in topological order."""
    parallelism, first_slot = graph.parallelism.tolist(), groups.first_slot.tolist()
    sources, all_to_all = inputs.sources.tolist(), inputs.all_to_all.tolist()
    bounds = bounds_of(inputs.targets, len(parallelism)).tolist()
    decided, co_location = inputs.decided.tolist(), co_location_keys(graph, groups)
    slots_of: dict[int, Slots] = {}
    constraints: dict[int, Slots] = {}
    picks: dict[tuple[int, int], Callable[[Slots], Slots]] = {}
    for vertex in vertices:
        consumers, first = parallelism[vertex], first_slot[vertex]
        begin, end = bounds[vertex], bounds[vertex + 1]
        candidates = [slots_of.get(s) or range(first, first + parallelism[s]) for s in sources[begin:end]]
        key = co_location[vertex]
        slots: Slots
        if key >= 0 or end - begin != 1:
            located = constraints.get(key, ())
            slots = _take(candidates, all_to_all[begin:end], located, first, consumers)
            if key >= 0 and consumers > len(located):
                constraints[key] = slots
        else:
            slots = candidates[0]
            producers = len(slots)
            if not decided[vertex]:
                slots = (*slots, *_smallest_free(set(slots), first, consumers))
            if all_to_all[begin]:
                slots = slots[:consumers]
            elif producers != consumers:
                pick = picks.get((producers, consumers))
                if pick is None:
                    pick = picks[producers, consumers] = _pointwise(producers, consumers)
                slots = pick(slots)
        slots_of[vertex] = slots
    return chain.from_iterable(slots_of.values())


def _pointwise(producers: int, consumers: int) -> Callable[[Slots], Slots]:
    """Picks the consumers' slots out of those of the producers and, where they are fewer, the smallest free.

    Of the consumers that read one producer, the first shares its slot.
    """
    read = [subtask * producers // consumers for subtask in range(consumers)]
    if producers < consumers:
        free = count(producers)
        read = [own if own != before else next(free) for before, own in pairwise([-1, *read])]
    if consumers == 1:
        return lambda slots: (slots[read[0]],)
    return itemgetter(*read)


def _take(
    candidates: list[Slots], all_to_all: list[bool], located: Slots, first: int, consumers: int
) -> list[int]:
    """Slots of one vertex's subtasks, of which the first are `located`; `candidates` of each input.

    A slot that was looked at is taken from then on. Subtasks that read the same partitions therefore share
    an iterator, and look at every producer once between them.
    """
    offers: list[tuple[Iterator[int] | None, Slots]] = []
    for shared, inputs in groupby(zip(candidates, all_to_all, strict=True), itemgetter(1)):
        slots_of_inputs = [slots for slots, _ in inputs]
        if shared:
            offers.append((chain.from_iterable(slots_of_inputs), ()))
        else:
            offers += [(None, slots) for slots in slots_of_inputs]
    found: list[int | None] = [*located[:consumers]]
    taken = set(located[:consumers])
    for subtask in range(len(found), consumers):
        slot = None
        for queue, slots in offers:
            if queue is not None:
                slot = _first_free(queue, taken)
            else:
                begin = subtask * len(slots) // consumers
                end = max(begin + 1, (subtask + 1) * len(slots) // consumers)
                slot = _first_free(slots[begin:end], taken)
            if slot is not None:
                taken.add(slot)
                break
        found.append(slot)
    free = iter(_smallest_free(taken, first, consumers))
    return [next(free) if slot is None else slot for slot in found]


def _first_free(slots: Iterable[int], taken: set[int]) -> int | None:
    for slot in slots:
        if slot not in taken:
            return slot
    return None


def _smallest_free(taken: set[int], first: int, consumers: int) -> list[int]:
    """The smallest slots from `first` on that are not taken, one for each consumer without one."""
    free = [slot for slot in range(first, first + consumers) if slot not in taken]
    return free[: consumers - len(taken)]
