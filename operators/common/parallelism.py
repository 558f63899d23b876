"""Flink's bounds of parallelism.

Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

UPPER_BOUND_MAX_PARALLELISM = 1 << 15
DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
"""The least max parallelism that Flink derives of a parallelism."""
