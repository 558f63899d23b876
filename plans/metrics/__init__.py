"""Metrics of a plan: the resources it needs, and the load it sustains under a cost model."""
