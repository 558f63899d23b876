"""Partitioners by class and attribute."""

import numpy as np

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import (
    CONSECUTIVE_HASH_CLASS,
    PARTITIONER_CLASSES,
    UNSPECIFIED_FORWARD_CLASS,
    Partitioner,
)

# Slot sharing groups inherited from inputs, over arrays.


DEFAULT_SLOT_SHARING_GROUP = "default"
NO_GROUP = -1


def inherited_groups(own_groups: Ints, sources: Ints, targets: Ints) -> Ints:
    """Return the number of each node's group; 0 if no node above names one, or if inputs disagree.

    In: the number of the group that each node names, or NO_GROUP; the nodes at both ends of each edge. Edges
    into a node come after edges into its sources, as they do if ids are in creation order.
    """
    inherited = np.array(own_groups, np.int32)
    edges = (np.array(ends, np.int32) for ends in (sources, targets))
    run_loop(_inherit, len(sources), (inherited.copy(), *edges), (inherited,))
    return np.maximum(inherited, 0)


def _inherit(own_groups: Ints, sources: Ints, targets: Ints, inherited: Ints) -> None:
    """The compiled loop (see run_loop). The group of an edge's source is final."""
    for edge in range(len(sources)):
        source, target = sources[edge], targets[edge]
        if own_groups[target] != NO_GROUP:
            continue
        group = inherited[source]
        if group == NO_GROUP:
            group = 0
        if inherited[target] == NO_GROUP:
            inherited[target] = group
        elif inherited[target] != group:
            inherited[target] = 0


CLASSES = PARTITIONER_CLASSES

POINTWISE = (Partitioner.FORWARD, Partitioner.RESCALE)
KEYED = (Partitioner.HASH, Partitioner.CUSTOM)
"""Partitioners that are equal only if they come from the same partition transformation."""

ALIGNED = (*POINTWISE, Partitioner.BROADCAST, Partitioner.CUSTOM)
"""Partitioners that do not support unaligned checkpoints."""

UNSPECIFIED_FORWARD, CONSECUTIVE_HASH = UNSPECIFIED_FORWARD_CLASS, CONSECUTIVE_HASH_CLASS
"""Forward classes of dynamic graphs. Edges that are not chained get an ordinary partitioner instead."""

PLACES = (TOPOLOGY, "source", "target", "in_index", "out_index", "type_number", "unique_id")
"""The ends of an edge, and its positions among the edges of both."""

SOURCE_ATTRIBUTES = (
    "name",
    "parallelism",
    "max_parallelism",
    "slot_sharing_group",
    "chaining",
    "source",
    "legacy_source",
    "buffer_timeout",
)
TARGET_ATTRIBUTES = ("name", "parallelism", "max_parallelism", "slot_sharing_group", "chaining", "yielding")


DEGREES = ("in_degree", "input_degree", "out_degree")
