"""The messages of both planners for topologies whose StreamGraph Flink refuses."""

MAX_INPUTS = 63
FORWARD_CHANGES_PARALLELISM = (
    "Forward partitioning does not allow change of parallelism. Upstream operation: ",
    " parallelism: ",
    ", downstream operation: ",
    " parallelism: ",
    " You must use another partitioning strategy, such as broadcast, rebalance, shuffle or global.",
)
"""The text before, between and after the operations and their parallelisms."""
MISSING_UID = "Auto generated UIDs have been disabled but no UID or hash has been assigned to operator "
STEP_HAS_UID = (
    "Sink ",
    " requires to set a uid since its customized topology has set uid for some operators.",
)
"""The text before and after the name of the sink."""
TOO_MANY_INPUTS = f"Only up to {MAX_INPUTS} inputs are supported at once, while encountered "
CONFLICTING_WEIGHTS = (
    "Conflict managed memory consumer weights for 'OPERATOR' were configured: '",
    "' and '",
    "'.",
)
"""The text before, between and after the weights."""
