"""Bounds and defaults of the parallelism of execution job vertices, for both planners."""

UPPER_BOUND_MAX_PARALLELISM = 1 << 15
LEAST_DEFAULT_MAX_PARALLELISM = 1 << 7
DECIDED_AT_RUN_TIME = -1
