"""What a recovery from a checkpoint guarantees. Source: pyflink.datastream.checkpointing_mode."""

from enum import Enum


class CheckpointingMode(Enum):
    """How often state sees a record that a recovery replays."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
