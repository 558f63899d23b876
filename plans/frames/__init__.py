"""Shared foundations of passes: frames of polars and Spark, counts, walks over arrays, refusals."""
