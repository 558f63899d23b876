"""Running planned jobs on Spark. A JobVertex is a pipeline, a JobEdge an exchange, a subtask a partition."""
