"""Partitioners by class and attribute, for both planners."""

from plans.vocabulary import Partitioner

CLASSES = {
    Partitioner.FORWARD: "ForwardPartitioner",
    Partitioner.REBALANCE: "RebalancePartitioner",
    Partitioner.RESCALE: "RescalePartitioner",
    Partitioner.SHUFFLE: "ShufflePartitioner",
    Partitioner.BROADCAST: "BroadcastPartitioner",
    Partitioner.GLOBAL: "GlobalPartitioner",
    Partitioner.HASH: "KeyGroupStreamPartitioner",
    Partitioner.CUSTOM: "CustomPartitionerWrapper",
}
UNSPECIFIED_FORWARD = "ForwardForUnspecifiedPartitioner"
FORWARD_CLASSES = ("ForwardPartitioner", UNSPECIFIED_FORWARD, "ForwardForConsecutiveHashPartitioner")

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
