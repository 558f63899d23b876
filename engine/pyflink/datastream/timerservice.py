"""The timer service, under the name that pyflink.datastream.timerservice has here."""

from penstock.operators.functions.process_functions import TimerService

__all__ = ["TimerService"]
