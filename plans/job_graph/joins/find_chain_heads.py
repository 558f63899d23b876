"""Chained nodes know the head of their chain and their distance to it, by pointer doubling."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.job_graph.find_chain_heads import HEADS, find_heads
from plans.joins.arrow_walks import Part, walk_topologies
from plans.tables.column_types import TOPOLOGY


def find_chain_heads(marked_edges: DataFrame) -> DataFrame:
    """One row per node that is chained to another.

    In: marked_edges (see mark_local_reasons). Out (key topology_id, node): head, distance (operators between
    the two, plus one), head_is_legacy_source. A chain that a legacy source heads is cut above each first
    yielding operator: that one is a head then, and has no row.

    The pointers of all topologies double their reach at once, in arrays: a join per round would cost twenty
    times as much, and an edge that may chain is its target's only one, so that nothing branches
    upwards.

    Source: StreamingJobGraphGenerator.getHeadOperator, createChain (chain index) and areOperatorsChainable
    (yielding operators), without their recursion.

    Example: tests/passes/fixtures/chain_heads.txt.
    """
    pointers = marked_edges.filter((F.col("reasons") == 0) & ~F.col("chained_source")).select(
        TOPOLOGY,
        F.col("target").alias("node"),
        F.col("source").alias("parent"),
        F.col("target_yielding").alias("yielding"),
        F.col("source_legacy_source").alias("behind_legacy_source"),
    )
    return walk_topologies([Part(pointers, "node")], lambda rows: [find_heads(rows)], HEADS)
