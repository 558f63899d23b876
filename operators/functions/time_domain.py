"""The two times that a timer can be set by. Source: pyflink.datastream.time_domain."""

from enum import Enum


class TimeDomain(Enum):
    """Whether a timer follows the watermark or the clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
