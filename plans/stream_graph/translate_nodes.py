"""Attributes of stream nodes that transformations do not have, for both planners."""

ONLY_GIVEN = ("description", "operator_class", "function_class", "output_type", "consumes_data_set")
"""Columns of STREAM_NODES, texts, that only a stream graph which is given can fill."""
