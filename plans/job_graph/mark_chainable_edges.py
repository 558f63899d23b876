"""The reasons against chaining as bits, for both planners."""

from plans.vocabulary import NotChainableReason

REASONS = list(NotChainableReason)
MAY_CROSS_BATCH = "ForwardForConsecutiveHashPartitioner"
"""The partitioner class that may chain over an exchange of mode BATCH."""


def reason_bit(reason: NotChainableReason) -> int:
    """What stands for the reason in a set of reasons."""
    return 1 << REASONS.index(reason)
