"""What job edges keep of themselves when they know their ends, for both planners."""

CARRIED = (
    "source_vertex",
    "target_vertex",
    "input_index",
    "output_index",
    "consumer_index",
    "result_partition_type",
)
"""Columns of connected_edges."""
