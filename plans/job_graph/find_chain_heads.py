"""Every chained node knows the head of its chain and how far away it is, by pointer doubling.

Two fixed points. The first follows all edges that the two ends allow to chain. It tells which yielding
operators stand first in a chain that a legacy source heads: Flink cuts those chains there, so the second
follows the pointers again for the nodes of such chains only.

Source: StreamingJobGraphGenerator.getHeadOperator and createChain (chain index), without their recursion.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.frames import TOPOLOGY, join_local, rename


def start(marked_edges: DataFrame) -> DataFrame:
    """One row a node behind an edge that its ends allow to chain, pointing one step up.

    In: marked_edges (see mark_local_reasons). Out (key topology_id, node): parent, head (the node pointed
    at), distance (steps to it), yields (yielding operators passed, the node itself included), yielding (the
    node), head_is_legacy_source, open (head may not be a head yet).
    """
    return marked_edges.filter((F.col("reasons") == 0) & ~F.col("chained_source")).select(
        TOPOLOGY,
        F.col("target").alias("node"),
        F.col("source").alias("parent"),
        F.col("source").alias("head"),
        F.lit(1).alias("distance"),
        F.col("target_yielding").cast("int").alias("yields"),
        F.col("target_yielding").alias("yielding"),
        F.col("source_legacy_source").alias("head_is_legacy_source"),
        F.lit(True).alias("open"),
    )


def step(chain_heads: DataFrame) -> DataFrame:
    """Every open pointer jumps over the pointer it points at: the distance covered doubles."""
    jumping = chain_heads.select("*", F.when(F.col("open"), F.col("head")).alias("jumps_from"))
    further = rename(
        chain_heads,
        at="node",
        further_head="head",
        further_distance="distance",
        further_yields="yields",
        further_is_legacy_source="head_is_legacy_source",
        further_open="open",
    )
    return join_local(jumping, further, {"jumps_from": "at"}, "left").select(
        TOPOLOGY,
        "node",
        "parent",
        F.coalesce("further_head", "head").alias("head"),
        (F.col("distance") + F.coalesce("further_distance", F.lit(0))).alias("distance"),
        (F.col("yields") + F.coalesce("further_yields", F.lit(0))).alias("yields"),
        "yielding",
        F.coalesce("further_is_legacy_source", "head_is_legacy_source").alias("head_is_legacy_source"),
        F.coalesce("further_open", F.lit(False)).alias("open"),
    )


def cut_behind_legacy_sources(chain_pointers: DataFrame) -> DataFrame:
    """Pointers of nodes below a cut point one step up again; the node below the cut has none: it is a head.

    In and out: as `start`. A chain is cut above its first yielding operator if a legacy source heads it.
    """
    below_cut = F.col("head_is_legacy_source") & (F.col("yields") >= 1)
    is_cut = F.col("yielding") & below_cut & (F.col("yields") == 1)
    return chain_pointers.filter(~is_cut).select(
        TOPOLOGY,
        "node",
        "parent",
        F.when(below_cut, F.col("parent")).otherwise(F.col("head")).alias("head"),
        F.when(below_cut, 1).otherwise(F.col("distance")).alias("distance"),
        F.when(below_cut, F.col("yielding").cast("int")).otherwise(F.col("yields")).alias("yields"),
        "yielding",
        (F.col("head_is_legacy_source") & ~below_cut).alias("head_is_legacy_source"),
        below_cut.alias("open"),
    )
