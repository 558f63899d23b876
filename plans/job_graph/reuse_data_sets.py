"""Which result partition types may be shared by several consumers."""

from penstock.plans.vocabulary import HYBRID_TYPES, ResultPartitionType

REUSABLE = (ResultPartitionType.BLOCKING, ResultPartitionType.BLOCKING_PERSISTENT, *HYBRID_TYPES)
