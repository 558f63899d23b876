"""JSON of Flink and of other tools as topologies: what it holds, and a list of what it does not."""
