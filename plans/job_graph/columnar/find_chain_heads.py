"""Every chained node knows the head of its chain and how far away it is, by pointer doubling."""

import polars as pl

from plans.columnar.frames import walk
from plans.job_graph.find_chain_heads import HEADS, find_heads
from plans.tables.column_types import TOPOLOGY

_POINTERS = (
    pl.col(TOPOLOGY),
    pl.col("target").alias("node"),
    pl.col("source").alias("parent"),
    pl.col("target_yielding").alias("yielding"),
    pl.col("source_legacy_source").alias("behind_legacy_source"),
    ((pl.col("reasons") == 0) & ~pl.col("chained_source")).alias("chains"),
)


def find_chain_heads(marked_edges: pl.DataFrame) -> pl.DataFrame:
    """One row a node that runs behind another in its chain. As joins.find_chain_heads."""
    pointers = marked_edges.select(_POINTERS).filter("chains").drop("chains")
    return walk(pointers, ["node"], find_heads, HEADS)
