"""Where records come from and where they go: sources that are read by split, sinks that commit."""
