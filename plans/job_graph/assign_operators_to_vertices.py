"""The columns of stream nodes that job vertices are made of."""

NODE_COLUMNS = (
    "name",
    "parallelism",
    "max_parallelism",
    "parallelism_configured",
    "slot_sharing_group",
    "co_location_group",
    "uid",
    "uid_hash",
    "invokable",
    "input_format",
    "output_format",
    "supports_concurrent_execution_attempts",
    "managed_memory",
    "slot_scope",
    "min_resources",
    "preferred_resources",
)
