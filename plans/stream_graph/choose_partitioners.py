"""Partitioners by class and attribute, for both planners."""

from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import PARTITIONER_CLASSES, UNSPECIFIED_FORWARD_CLASS, Partitioner

CLASSES, UNSPECIFIED_FORWARD = PARTITIONER_CLASSES, UNSPECIFIED_FORWARD_CLASS

POINTWISE = (Partitioner.FORWARD, Partitioner.RESCALE)
KEYED = (Partitioner.HASH, Partitioner.CUSTOM)
"""Partitioners that are equal only if they come from the same partition."""

ALIGNED = (*POINTWISE, Partitioner.BROADCAST, Partitioner.CUSTOM)
"""Partitioners that do not support unaligned checkpoints."""

CONSECUTIVE_HASH = "ForwardForConsecutiveHashPartitioner"
"""Forward classes of dynamic graphs. Edges that are not chained get an ordinary partitioner instead."""

FORWARD_CLASSES = (CLASSES[Partitioner.FORWARD], UNSPECIFIED_FORWARD, CONSECUTIVE_HASH)

PLACES = (TOPOLOGY, "source", "target", "in_index", "out_index", "type_number", "unique_id")
"""The ends of an edge, and its places among the edges of both."""

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
