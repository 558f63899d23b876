"""One subtask of a JobVertex inside a Spark task."""
