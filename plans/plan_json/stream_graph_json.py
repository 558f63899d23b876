"""The keys of nodes and edges in the `stream_graph` of plan JSON."""

NODE_KEYS = (
    "id",
    "name",
    "parallelism",
    "max_parallelism",
    "slot_sharing_group",
    "co_location_group",
    "uid",
    "uid_hash",
    "buffer_timeout",
    "chaining",
)
EDGE_KEYS = (
    "source",
    "target",
    "type_number",
    "partitioner",
    "exchange_mode",
    "output_tag",
    "edge_id",
    "chainable",
)
