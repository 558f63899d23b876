"""Whether the state of one job can be restored in another, as Flink decides it."""
