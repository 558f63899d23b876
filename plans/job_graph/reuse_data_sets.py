"""Which result partition types may be shared by several consumers."""

from plans.vocabulary import ResultPartitionType as Type

HYBRID = (Type.HYBRID_FULL, Type.HYBRID_SELECTIVE)
REUSABLE = (Type.BLOCKING, Type.BLOCKING_PERSISTENT, *HYBRID)
