"""Slot sharing groups as arrays, the input of slot sharing strategies."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock.plans.execution_graph.job_graph_arrays import JobGraphArrays
from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.counts import sums_before

Strategy = Callable[[JobGraphArrays], Ints]


class SlotSharingGroups(NamedTuple):
    """Slots of all slot sharing groups in one numbering, by topology, group and place in the group.

    A group has as many slots as its largest vertex has subtasks: tasks of one vertex never share a slot, and
    no vertex opens a slot while another one is free.
    """

    of_vertex: Ints  #: group per vertex, numbered by topology, then slot_sharing_group
    slots: Ints  #: number of slots per group
    first_slot: Ints  #: per vertex the first slot of its group


def slot_sharing_groups(graph: JobGraphArrays) -> SlotSharingGroups:
    """The slot sharing groups of `graph`."""
    starts = np.flatnonzero(graph.first == np.arange(len(graph.first)))
    of_vertex = numbered_groups(starts, graph.slot_sharing_group)
    slots = np.zeros(of_vertex.max() + 1, dtype=np.int64)
    np.maximum.at(slots, of_vertex, graph.parallelism)
    return SlotSharingGroups(of_vertex, slots, sums_before(slots)[of_vertex])


def numbered_groups(starts: Ints, groups: Ints) -> Ints:
    """The number of each vertex's group, by topology and then by `groups`, which count from 0 in each.

    `starts`: the first vertex of each topology.
    """
    if not len(groups):
        return groups
    cells = np.maximum.reduceat(groups, starts) + 1
    lengths = np.diff(np.append(starts, len(groups)))
    own = np.repeat(sums_before(cells), lengths) + groups
    taken = np.zeros(cells.sum(), dtype=np.int64)
    taken[own] = 1
    numbers: Ints = (np.cumsum(taken) - 1)[own]
    return numbers


def co_location_keys(graph: JobGraphArrays, groups: SlotSharingGroups) -> list[int]:
    """A number for each vertex's co-location group, negative where it has none.

    Flink refuses a group that spans slot sharing groups; its topology is still planned, each part on its own.
    """
    located = graph.co_location_group >= 0
    keys: list[int] = np.where(located, groups.of_vertex << 32 | graph.co_location_group, -1).tolist()
    return keys
