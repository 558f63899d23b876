"""Jobs of known cost on the real Flink's MiniCluster, whose rates and processor time are measured."""
