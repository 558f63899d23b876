"""Partitioners that dynamic graphs settle on, and result partition types, for both planners."""

from penstock.plans.vocabulary import GlobalStreamExchangeMode as Mode
from penstock.plans.vocabulary import Partitioner, StreamExchangeMode
from penstock.plans.vocabulary import ResultPartitionType as Type

SETTLED = (Partitioner.RESCALE, Partitioner.HASH)
"""What UNSPECIFIED_FORWARD and CONSECUTIVE_HASH become on edges that are not chained."""

OF_EXCHANGE_MODE = {
    StreamExchangeMode.PIPELINED: Type.PIPELINED_BOUNDED,
    StreamExchangeMode.BATCH: Type.BLOCKING,
    StreamExchangeMode.HYBRID_FULL: Type.HYBRID_FULL,
    StreamExchangeMode.HYBRID_SELECTIVE: Type.HYBRID_SELECTIVE,
}
"""An edge's own exchange mode to its type; UNDEFINED leaves the choice to the job."""

OF_GLOBAL_MODE = {
    Mode.ALL_EDGES_BLOCKING: (Type.BLOCKING, Type.BLOCKING, Type.BLOCKING),
    Mode.FORWARD_EDGES_PIPELINED: (Type.PIPELINED_BOUNDED, Type.BLOCKING, Type.BLOCKING),
    Mode.POINTWISE_EDGES_PIPELINED: (Type.PIPELINED_BOUNDED, Type.PIPELINED_BOUNDED, Type.BLOCKING),
    Mode.ALL_EDGES_PIPELINED: (Type.PIPELINED_BOUNDED,) * 3,
    Mode.ALL_EDGES_PIPELINED_APPROXIMATE: (Type.PIPELINED_APPROXIMATE,) * 3,
    Mode.ALL_EDGES_HYBRID_FULL: (Type.HYBRID_FULL,) * 3,
    Mode.ALL_EDGES_HYBRID_SELECTIVE: (Type.HYBRID_SELECTIVE,) * 3,
}
"""The job's exchange mode to the types of forward edges, of other pointwise edges and of all others."""

KEPT_BY_CACHES = Type.BLOCKING
"""An edge of this type with a persistent data set is BLOCKING_PERSISTENT, and writes that data set.

Source: StreamingJobGraphGenerator.isPersistentIntermediateDataset.
"""
