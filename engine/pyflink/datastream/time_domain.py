"""The two times of timers, under the name that pyflink.datastream.time_domain has here."""

from penstock.operators.functions.functions import TimeDomain

__all__ = ["TimeDomain"]
