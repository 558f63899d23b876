"""Synthetic topologies as tables, deterministic in their seed however they are divided into parts.

A shape describes a `Fleet`: how many units it has, and how polars makes the rows of any of them. This process
makes them one part after another (`rows`, `topology_lines`), Spark in its Python workers
(`joins/generate_on_spark`).
"""
