"""Streaming or batch. Source: pyflink.datastream.execution_mode."""

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a job runs; AUTOMATIC is BATCH where all sources are bounded."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
