"""Running a planned job on Spark: a pipeline a JobVertex, an exchange a JobEdge, a partition a subtask."""
