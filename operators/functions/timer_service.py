"""The service that tells process functions the time and registers their timers.

Source: pyflink.datastream.timerservice; org.apache.flink.streaming.api.TimerService.
"""

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Times in milliseconds; timers belong to the current key, and there is at most one per key and time."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock, milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time reached; the least 64-bit integer before the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for the current key once the clock shows `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for the current key once the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget the current key's processing-time timer for `timestamp`, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget the current key's event-time timer for `timestamp`, if there is one."""
