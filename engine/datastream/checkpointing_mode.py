"""What checkpoints guarantee. Source: pyflink.datastream.checkpointing_mode."""

from enum import Enum


class CheckpointingMode(Enum):
    """Each record counts once, or at least once, after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
