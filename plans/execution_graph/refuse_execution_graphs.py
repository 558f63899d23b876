"""The messages of both planners for topologies whose ExecutionGraph Flink refuses."""

from penstock.operators.common.parallelism import UPPER_BOUND_MAX_PARALLELISM

BOUNDS, MAX_PARALLELISM, CO_LOCATION, TOO_MANY = range(4)
JOB_EXCEPTION = "JobException"
NOT_WITHIN_BOUNDS = "Operator parallelism not within bounds: "
NOT_IN_VALID_BOUNDS = (
    f"Setting parallelism is not in valid bounds (1..{UPPER_BOUND_MAX_PARALLELISM}), found: "
)
NOT_IN_SAME_REGION = "co-located tasks must be in the same pipelined region"
ABOVE_MAX_PARALLELISM = (
    "Vertex ",
    "'s parallelism (",
    ") is higher than the max parallelism (",
    "). Please lower the parallelism or increase the max parallelism.",
)
"""The text before, between and after name, parallelism and max parallelism."""
