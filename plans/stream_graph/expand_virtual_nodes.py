"""Every virtual transformation is replaced by the physical ones behind it, by pointer doubling."""

LABELS = ("partition", "partitioner", "exchange_mode", "output_tag", "selected_names")
