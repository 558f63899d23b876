"""Chained nodes know the head of their chain and their distance to it, by pointer doubling."""

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
    """One row per node that is chained to another.

    Columns and source: see joins.find_chain_heads.

    Example: tests/passes/fixtures/chain_heads.txt.
    """
    pointers = marked_edges.select(_POINTERS).filter("chains").drop("chains")
    return walk(pointers, ["node"], find_heads, HEADS)
