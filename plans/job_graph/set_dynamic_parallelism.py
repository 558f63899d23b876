"""The parallelism of a vertex before it is decided."""

NOT_DECIDED = -1
"""A parallelism or max parallelism that Flink decides later: in dynamic graphs, or when the job starts.

Source: ExecutionConfig.PARALLELISM_DEFAULT, JobVertex.MAX_PARALLELISM_DEFAULT.
"""
