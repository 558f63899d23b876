"""The timer service, under the name that pyflink.datastream.timerservice has here."""

from penstock.operators.functions.functions import TimerService

__all__ = ["TimerService"]
