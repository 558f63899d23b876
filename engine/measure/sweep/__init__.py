"""Sweeps: a grid of topologies, options, costs and planners, measured cell by cell into a Delta table."""
