"""Every stream edge knows whether it is chainable, and every reason why not; every node knows its chain."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.job_graph.order_depth_first import HEADS, find_heads
from penstock.plans.stream_graph.not_chainable_reasons import (
    EdgeExpressions,
    NotChainableReason,
    local_conditions,
)
from penstock.plans.tables import STREAM_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import FORWARD_CLASSES, ChainingStrategy


def mark_local_reasons(edges_with_ends: DataFrame, job_settings: DataFrame) -> DataFrame:
    """All reasons that an edge and its two ends decide.

    In: edges_with_ends (see choose_partitioners), job_settings. Out: the same rows with reasons (bit set over
    NotChainableReason) and chained_source (the edge's source runs inside the head at its other end).

    Source: StreamingJobGraphGenerator.isChainable, isChainableInput, isChainableSource,
    areOperatorsChainable.

    Example: tests/passes/fixtures/marked_edges.txt.
    """
    settings = job_settings.select(TOPOLOGY, "chaining_enabled", "chain_different_max_parallelism")
    row = EdgeExpressions(
        F.col,
        lambda column, value: F.coalesce(column, F.lit(value)),
        F.col("partitioner_class").isin(*FORWARD_CLASSES),
    )
    reasons = sum(
        (F.when(condition, reason.bit).otherwise(0) for reason, condition in local_conditions(row).items()),
        F.lit(0),
    )
    input_reasons = F.col("reasons").bitwiseAND(~NotChainableReason.SEVERAL_INPUTS.bit)
    marked = join_local(edges_with_ends, settings, {})
    return marked.select("*", reasons.alias("reasons")).select(
        *edges_with_ends.columns,
        "reasons",
        (
            F.col("source_source")
            & (F.col("out_degree") == 1)
            & (F.col("target_chaining") == ChainingStrategy.HEAD_WITH_SOURCES)
            & (input_reasons == 0)
        ).alias("chained_source"),
    )


def mark_chainable_edges(marked_edges: DataFrame, chain_heads: DataFrame) -> DataFrame:
    """The StreamGraph's edges with their verdicts on chaining.

    In: marked_edges (see mark_local_reasons), chain_heads (see find_chain_heads). Out: stream_edges.

    Source: StreamingJobGraphGenerator.areOperatorsChainable: a yielding operator may not follow a legacy
    source in its chain. StreamGraphGenerator.generate: if one input of a node needs aligned checkpoints, all
    have to.

    Example: tests/passes/fixtures/stream_edges.txt.
    """
    yielding = NotChainableReason.YIELDING_BEHIND_LEGACY_SOURCE.bit
    forced = (
        marked_edges.filter((F.col("in_degree") > 1) & ~F.col("supports_unaligned_checkpoints"))
        .select(TOPOLOGY, F.col("target").alias("aligned_target"), F.lit(True).alias("aligned"))
        .distinct()
    )
    behind_legacy = _behind_legacy_sources(marked_edges, chain_heads)
    with_cuts = join_local(
        marked_edges, behind_legacy, {"target": "cut_target", "in_index": "cut_index"}, "left"
    )
    verdict = join_local(with_cuts, forced, {"target": "aligned_target"}, "left").select(
        "*",
        F.col("reasons").bitwiseOR(F.when(F.col("cut"), yielding).otherwise(0)).alias("all_reasons"),
    )
    # Not array_compact, whose lambda Spark does not compile.
    named = F.when(F.col("all_reasons") == 0, F.array().cast("array<string>")).otherwise(
        F.split(
            F.concat_ws(
                ",",
                *(
                    F.when(F.col("all_reasons").bitwiseAND(reason.bit) != 0, F.lit(reason.value))
                    for reason in NotChainableReason
                ),
            ),
            ",",
        )
    )
    computed = {
        "supports_unaligned_checkpoints": F.col("supports_unaligned_checkpoints") & F.col("aligned").isNull(),
        "chainable": F.col("all_reasons") == 0,
        "not_chainable_reasons": named,
    }
    return verdict.select(
        *(computed[name].alias(name) if name in computed else F.col(name) for name in STREAM_EDGES.names)
    )


def _behind_legacy_sources(marked_edges: DataFrame, chain_heads: DataFrame) -> DataFrame:
    """Edges to yielding operators from chains that a legacy source heads: cut_target, cut_index, cut (true).

    Found among the edges to yielding operators: where topologies have blocks, these few are exchanged by
    source, and no others.
    """
    to_yielding = marked_edges.filter("target_yielding").select(
        TOPOLOGY, "source", "target", "in_index", "source_legacy_source"
    )
    legacy_heads = chain_heads.filter("head_is_legacy_source").select(
        TOPOLOGY, "node", "head_is_legacy_source"
    )
    cut_edges = join_local(to_yielding, legacy_heads, {"source": "node"}, "left").filter(
        F.col("source_legacy_source") | F.col("head_is_legacy_source").isNotNull()
    )
    return rename(cut_edges, cut_target="target", cut_index="in_index").withColumn("cut", F.lit(True))


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
