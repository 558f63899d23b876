"""Plan by Apache Flink itself, in a separate JVM."""
