"""What an edge picks up from the virtual transformations that it passes."""

LABELS = ("partition", "partitioner", "exchange_mode", "output_tag", "selected_names")
