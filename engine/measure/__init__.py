"""Measuring planners, grids and the cost model, and drawing the topologies for it."""
