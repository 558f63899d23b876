"""Shared foundations of passes for polars and Spark (frames, counts, walks over arrays, refusals)."""
