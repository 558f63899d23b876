"""The parallelism of a vertex of a dynamic graph before it is decided."""

NOT_DECIDED = -1
