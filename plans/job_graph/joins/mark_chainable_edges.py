"""Every stream edge knows whether it is chainable, and every reason why not; every node knows its chain."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.job_graph.generate_operator_ids import generate_operator_ids
from penstock.plans.job_graph.java_hashes import java_string_hashes
from penstock.plans.job_graph.order_depth_first import HEADS, DepthFirstOrder, find_heads, order_depth_first
from penstock.plans.job_graph.stream_graph_arrays import StreamGraphArrays, arrays_of_rows
from penstock.plans.job_graph.uid_hashes import uid_hashes
from penstock.plans.job_graph.walk_stream_graph import data_set_ids
from penstock.plans.stream_graph.not_chainable_reasons import (
    EdgeExpressions,
    NotChainableReason,
    local_conditions,
)
from penstock.plans.tables import STREAM_EDGES
from penstock.plans.tables.column_types import BOOL, INT, LONG, TOPOLOGY
from penstock.plans.vocabulary import FORWARD_CLASSES, ChainingStrategy

# The two sequential walks over a StreamGraph, in one Arrow pass over whole topologies.


ROWS_OF_A_BATCH = 131_072
"""Rows that are put together at a time: what is found is never in memory as a whole."""

WALKED = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("node", INT, True),
        pa.field("out_index", INT, True),
        pa.field("vertex", INT, True),
        pa.field("id_lower", LONG, True),
        pa.field("id_upper", LONG, True),
        pa.field("preorder", INT, True),
        pa.field("postorder", INT, True),
        pa.field("vertex_postorder", INT, True),
        pa.field("branch", INT, True),
        pa.field("closings", INT, True),
        pa.field("no_output", BOOL, True),
        pa.field("colliding_node", INT, True),
    ]
)


def walk_stream_graph(stream_nodes: DataFrame, stream_edges: DataFrame) -> DataFrame:
    """Properties of nodes and edges that need a walk in Flink's order.

    In: stream_nodes, stream_edges. Out, three sorts of rows keyed by topology_id:
    node rows (node; out_index null): id_lower and id_upper (the operator id as two big-endian longs),
    preorder, postorder, branch, closings, no_output (see DepthFirstOrder), vertex (head of the chain),
    vertex_postorder; edge rows (node is the source; out_index) of edges that are not chained: the
    intermediate data set id an own data set would have as id_lower and id_upper, and vertex,
    vertex_postorder, postorder, no_output of the source; one error row (node null) for a topology with a
    node whose uid collides with another's: colliding_node.

    Example: tests/passes/fixtures/walked.txt.
    """
    nodes = stream_nodes.select(
        TOPOLOGY,
        "id",
        F.col("no_output_until_end_of_input").alias("no_output"),
        F.col("among_sources").alias("source"),
        "uid",
    )
    edges = stream_edges.select(
        TOPOLOGY,
        F.col("source").alias("id"),
        "target",
        "out_index",
        "in_index",
        "chainable",
        "chained_source",
        F.when(~F.col("chainable") & ~F.col("chained_source"), F.col("edge_id")).alias("edge_id"),
    )
    parts = [
        Part(nodes, "id", compact=with_uid_hashes),
        Part(edges, "id", "out_index", compact=with_edge_hashes),
    ]
    return walk_topologies(parts, walk_graphs, WALKED)


def with_uid_hashes(nodes: pa.Table) -> pa.Table:
    """Rows of nodes with uid_lower and uid_upper (null without a uid), the halves of the uid's hash."""
    named, halves = uid_hashes(nodes.column("uid").combine_chunks())
    if not len(halves):
        halves = np.zeros((len(named), 2), np.uint64)
    for place, name in enumerate(("uid_lower", "uid_upper")):
        nodes = nodes.append_column(name, pa.array(halves[:, place].view(np.int64), mask=~named))
    return nodes.drop_columns("uid")


def with_edge_hashes(edges: pa.Table) -> pa.Table:
    """Rows of edges with edge_hash, the hash of the edge id."""
    hashes = java_string_hashes(edges.column("edge_id").combine_chunks())
    return edges.append_column("edge_hash", pa.array(hashes)).drop_columns("edge_id")


def walk_graphs(nodes: pa.Table, edges: pa.Table) -> Iterator[pa.RecordBatch]:
    """Both walks over rows of nodes sorted by topology and id, and of edges by topology, id, out_index."""
    graph = arrays_of_rows(nodes, edges)
    nodes, edges = nodes.select((TOPOLOGY, "id")), edges.select((TOPOLOGY, "edge_hash"))  # drops others
    ids, colliding = generate_operator_ids(graph)
    graph = graph._replace(in_bounds=_NOTHING, in_sources=_NOTHING)
    order = order_depth_first(graph)
    node_ids = nodes.column("id").to_numpy()
    for start in range(0, len(nodes), ROWS_OF_A_BATCH):
        yield _node_rows(nodes.slice(start, ROWS_OF_A_BATCH), start, node_ids, ids, order)
    for start in range(0, len(edges), ROWS_OF_A_BATCH):
        yield _edge_rows(edges.slice(start, ROWS_OF_A_BATCH), start, graph, node_ids, ids, order)
    collisions = nodes.take(pa.array(colliding))
    yield _batch({TOPOLOGY: collisions.column(TOPOLOGY), "colliding_node": collisions.column("id")})


_NOTHING = np.zeros(0, np.int32)


def _node_rows(
    nodes: pa.Table, start: int, node_ids: Ints, ids: Ints, order: DepthFirstOrder
) -> pa.RecordBatch:
    rows = slice(start, start + len(nodes))
    heads = order.head[rows]
    return _batch(
        {
            TOPOLOGY: nodes.column(TOPOLOGY),
            "node": nodes.column("id"),
            "vertex": pa.array(node_ids[heads]),
            "id_lower": pa.array(ids[rows, 0]),
            "id_upper": pa.array(ids[rows, 1]),
            "preorder": pa.array(order.preorder[rows]),
            "postorder": pa.array(order.postorder[rows]),
            "vertex_postorder": pa.array(order.postorder[heads]),
            "branch": pa.array(order.branch[rows]),
            "closings": pa.array(order.closings[rows]),
            "no_output": pa.array(order.no_output[rows]),
        }
    )


def _edge_rows(
    edges: pa.Table,
    start: int,
    graph: StreamGraphArrays,
    node_ids: Ints,
    ids: Ints,
    order: DepthFirstOrder,
) -> pa.RecordBatch:
    rows = slice(start, start + len(edges))
    sources = _sources(graph.out_bounds, rows)
    # Edges of operators that no source leads to connect no vertices.
    unchained = ~(graph.chainable[rows] | graph.chained_source[rows]) & (order.postorder[sources] >= 0)
    sources, kept = sources[unchained], edges.filter(pa.array(unchained))
    out_indexes = np.flatnonzero(unchained) + start - graph.out_bounds[sources]
    heads = order.head[sources]
    lower, upper = data_set_ids(ids[heads, 0], ids[heads, 1], kept.column("edge_hash").to_numpy())
    return _batch(
        {
            TOPOLOGY: kept.column(TOPOLOGY),
            "node": pa.array(node_ids[sources]),
            "out_index": pa.array(out_indexes, pa.int32()),
            "vertex": pa.array(node_ids[heads]),
            "id_lower": pa.array(lower),
            "id_upper": pa.array(upper),
            "postorder": pa.array(order.postorder[sources]),
            "vertex_postorder": pa.array(order.postorder[heads]),
            "no_output": pa.array(order.no_output[sources]),
        }
    )


def _sources(out_bounds: Ints, edges: slice) -> Ints:
    """The source of each of these edges."""
    ends = np.array((edges.start, edges.stop - 1), out_bounds.dtype)  # of another type, bounds are copied
    first, last = np.searchsorted(out_bounds, ends, "right") - 1
    bounds = np.clip(out_bounds[first : last + 2], edges.start, edges.stop)
    return np.repeat(np.arange(first, last + 1, dtype=np.int32), np.diff(bounds))


def _batch(columns: dict[str, pa.Array | pa.ChunkedArray]) -> pa.RecordBatch:
    """Rows of WALKED; missing columns are null."""
    count = len(columns[TOPOLOGY])
    table = pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in WALKED
        },
        schema=WALKED,
    )
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], WALKED)]
    return batch


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
