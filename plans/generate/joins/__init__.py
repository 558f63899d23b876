"""Fleets made on Spark."""
