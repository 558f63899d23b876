"""Lengths of time and points in time, as pyflink.common.time names them."""

from penstock.operators.common.time import Duration, Instant, Time

__all__ = ["Duration", "Instant", "Time"]
