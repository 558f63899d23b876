"""Measure the constants of the cost model on this machine."""
