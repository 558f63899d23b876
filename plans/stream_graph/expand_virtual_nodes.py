"""The attributes that an edge gets from the virtual transformations on its way."""

LABELS = ("partition", "partitioner", "exchange_mode", "output_tag", "selected_names")
