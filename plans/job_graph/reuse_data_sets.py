"""Edges that can read the same intermediate data set do."""

from plans.vocabulary import ResultPartitionType as Type

HYBRID = (Type.HYBRID_FULL, Type.HYBRID_SELECTIVE)
REUSABLE = (Type.BLOCKING, *HYBRID)
