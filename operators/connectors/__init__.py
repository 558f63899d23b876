"""Sources, which are read by split, and sinks, which commit."""
