"""Synthetic topologies as tables, made on Spark, deterministic in their seed whatever the partition count."""
