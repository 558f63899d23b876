"""Metrics of the resources that a plan needs and of the load that it sustains under a cost model."""
