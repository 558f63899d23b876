"""Metrics of a job after a change of decisions, without planning it again."""
