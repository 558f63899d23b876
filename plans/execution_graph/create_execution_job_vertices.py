"""Every job vertex knows how many subtasks it has and how far it could be rescaled."""

UPPER_BOUND_MAX_PARALLELISM = 1 << 15
LEAST_DEFAULT_MAX_PARALLELISM = 1 << 7
DECIDED_AT_RUN_TIME = -1
