"""Synthetic topologies as tables, deterministic in their seed however they are divided into parts.

A shape describes a `Fleet`: its number of units, and how polars creates the rows of any of them. This process
creates them part by part (`rows`, `topology_lines`), Spark in its Python workers (`generate_on_spark`).
"""
