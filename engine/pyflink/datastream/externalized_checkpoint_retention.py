"""Which checkpoints outlive their job. Source: pyflink.datastream.externalized_checkpoint_retention."""

from enum import Enum


class ExternalizedCheckpointRetention(Enum):
    """What becomes of the checkpoints of a job that is cancelled."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
