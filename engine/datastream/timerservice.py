"""The timer service, under the name that pyflink.datastream.timerservice has here."""

from operators.functions.timer_service import TimerService

__all__ = ["TimerService"]
