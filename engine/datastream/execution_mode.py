"""How a job runs. Source: pyflink.datastream.execution_mode."""

from enum import Enum


class RuntimeExecutionMode(Enum):
    """STREAMING, BATCH, or AUTOMATIC: BATCH where all sources are bounded, as all are here."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
