"""Run jobs of known cost on the real Flink's MiniCluster, and measure their rates and processor time."""
