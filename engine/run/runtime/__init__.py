"""Running a planned job on Spark: a JobVertex is a pipeline, a JobEdge an exchange, a subtask a partition."""
