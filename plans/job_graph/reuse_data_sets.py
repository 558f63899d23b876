"""The result partition types that several consumers may share."""

from penstock.plans.vocabulary import HYBRID_TYPES, ResultPartitionType

REUSABLE = (ResultPartitionType.BLOCKING, ResultPartitionType.BLOCKING_PERSISTENT, *HYBRID_TYPES)
