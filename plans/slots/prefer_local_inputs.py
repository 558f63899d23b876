"""Puts tasks into the slots of their producers, over arrays; both planners call it."""

from typing import NamedTuple

import numpy as np

from penstock.plans.execution_graph.job_graph_arrays import JobGraphArrays
from penstock.plans.execution_graph.pointwise_edges import partitions_of_subtask
from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.counts import bounds_of, counts_from, counts_up, sums_before
from penstock.plans.slots.slots_of_groups import SlotSharingGroups, co_location_keys, slot_sharing_groups

_NONE = -1


def prefer_producers_slots(graph: JobGraphArrays) -> Ints:
    """The number of each task's slot.

    Vertices one after the other in topological order: a subtask takes the slot of its co-location constraint,
    else the first of its producers' slots that is free, input by input; those left over take the oldest free
    slots, or new ones. As slots of a group are numbered by age and the left over come last, they take the
    smallest numbers that are not taken.

    Source: LocalInputPreferredSlotSharingStrategy. Its candidates and available groups are linked hash sets,
    in the order of producing tasks and of creation; so are they here. Its hash maps are looked up, never
    iterated.
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
    """The number of each slot in order of creation; a vertex creates the slots that its group lacks."""
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
    return counts_from(numbers[order], created[order])


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
    # Sources stand before their targets, and edges are in the order of their targets.
    run_loop(_reach, len(inputs.targets), (inputs.sources, inputs.targets), (uneven,))
    return uneven


def _reach(sources: Ints, targets: Ints, reached: Flags) -> None:
    """The loop (see run_loop): targets of reached vertices are reached."""
    for edge in range(len(targets)):
        if reached[sources[edge]]:
            reached[targets[edge]] = True


def _take_in_turn(
    graph: JobGraphArrays, groups: SlotSharingGroups, inputs: _Inputs, vertices: Ints, slots: Ints
) -> None:
    """Writes into `slots`, which is per task, those of the tasks of `vertices` (in topological order).

    What `slots` has of all other tasks is right already.
    """
    keys = np.array(co_location_keys(graph, groups))
    located = keys >= 0
    keys[located] = np.unique(keys[located], return_inverse=True)[1]
    goes_on = inputs.all_to_all[1:] & inputs.all_to_all[:-1] & (inputs.targets[1:] == inputs.targets[:-1])
    offers = np.flatnonzero(np.concatenate(([True], ~goes_on))[: len(inputs.targets)])
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
    """The partitions that subtasks of `vertices` read along pointwise inputs.

    Per input the place of its first subtask in the other two arrays; per subtask the first partition that it
    reads, and the one after the last.
    """
    looked_at = np.zeros(len(graph.vertices), dtype=np.bool_)
    looked_at[vertices] = True
    consumers = graph.parallelism[inputs.targets]
    counts = np.where(~inputs.all_to_all & looked_at[inputs.targets], consumers, 0)
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
    go_on_at: Ints,
    next_candidate: Ints,
    located_task: Ints,
    located: Ints,
) -> None:
    """The loop (see run_loop). An offer is one pointwise input, or neighbouring ones from all producers.

    State of the loop: which vertex took a slot last; the input at which an offer from all producers
    continues, and how many of its producers were tried (all subtasks read the same ones, and a slot once
    tried is taken); per co-location group the first task of its largest vertex so far, and its subtasks.
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
                edge = go_on_at[offer]
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
                            go_on_at[offer] = edge + 1
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
