"""Partitioners by class and attribute, for both planners."""

from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import (
    CONSECUTIVE_HASH_CLASS,
    PARTITIONER_CLASSES,
    UNSPECIFIED_FORWARD_CLASS,
    Partitioner,
)

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
