"""Measure a grid of topologies, options, costs and planners, cell by cell, into a Delta table."""
