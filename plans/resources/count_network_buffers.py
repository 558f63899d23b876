"""Result partition types by how they take network buffers, for both planners."""

from plans.vocabulary import ResultPartitionType as Type

MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH = 1000
PIPELINED = (Type.PIPELINED, Type.PIPELINED_BOUNDED)
HYBRID = (Type.HYBRID_FULL, Type.HYBRID_SELECTIVE)
BLOCKING = (Type.BLOCKING, Type.BLOCKING_PERSISTENT)
BOUNDED = (Type.PIPELINED_BOUNDED, Type.PIPELINED_APPROXIMATE)
