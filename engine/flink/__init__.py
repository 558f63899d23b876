"""Plans made by Apache Flink itself, in a JVM of its own."""
