"""Vertices of dynamic graphs get the parallelism that the adaptive batch scheduler starts from."""

NOT_DECIDED = -1
