"""Exchange modes to result partition types, for both planners."""

from plans.vocabulary import ResultPartitionType as Type
from plans.vocabulary import StreamExchangeMode

OF_EXCHANGE_MODE = {
    StreamExchangeMode.PIPELINED: Type.PIPELINED_BOUNDED,
    StreamExchangeMode.BATCH: Type.BLOCKING,
    StreamExchangeMode.HYBRID_FULL: Type.HYBRID_FULL,
    StreamExchangeMode.HYBRID_SELECTIVE: Type.HYBRID_SELECTIVE,
}
CONSECUTIVE_HASH = "ForwardForConsecutiveHashPartitioner"
