"""Planning ideas of others in place of Flink's rules: what may be decided, and how it is checked."""
