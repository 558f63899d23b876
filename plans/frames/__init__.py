"""What passes stand on: frames of polars and of Spark, counts, walks over arrays, refusals."""
