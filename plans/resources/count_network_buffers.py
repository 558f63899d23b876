"""How many network buffers the gates and result partitions of a task need."""

from plans.vocabulary import ResultPartitionType as Type

MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH = 1000
PIPELINED = (Type.PIPELINED, Type.PIPELINED_BOUNDED)
HYBRID = (Type.HYBRID_FULL, Type.HYBRID_SELECTIVE)
BLOCKING = (Type.BLOCKING, Type.BLOCKING_PERSISTENT)
BOUNDED = (Type.PIPELINED_BOUNDED, Type.PIPELINED_APPROXIMATE)
