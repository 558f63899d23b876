"""The same metrics of tables in Spark."""
