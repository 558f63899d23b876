"""Chaining of every stream edge, with all reasons against it, and the chain of every node."""

from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.polars_frames import ints, look_up, walk
from penstock.plans.job_graph.create_vertices import CHAINED_SOURCE, HEAD
from penstock.plans.job_graph.generate_operator_ids import generate_operator_ids
from penstock.plans.job_graph.order_depth_first import HEADS, find_heads, order_depth_first
from penstock.plans.job_graph.stream_graph_arrays import GraphEdges, stream_graph_arrays
from penstock.plans.job_graph.uid_hashes import UidHashes, uid_hashes
from penstock.plans.stream_graph.not_chainable_reasons import (
    EdgeExpressions,
    NotChainableReason,
    local_conditions,
)
from penstock.plans.tables import STREAM_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import ChainingStrategy

# The two sequential walks over a StreamGraph.


_NODE_COLUMNS = (TOPOLOGY, "id", "uid", "no_output_until_end_of_input", "among_sources")


def walk_stream_graph(
    stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, edge_ends: pl.DataFrame
) -> pl.DataFrame:
    """Return properties of nodes that require a walk in Flink's order, one row per row of stream_nodes.

    Out: id_lower, id_upper, preorder, branch, closings, no_output (see DepthFirstOrder); vertex (head
    of the chain); vertex_place (number of the vertex in the order in which Flink creates them, which is its
    row in chain_vertices; -1: the node is in none); chain_index; chained_source_index (position of a source
    among the sources in one head); operator_order; operator_place (by vertex and operator_order among all
    operators except chained sources); colliding (the node's uid collides, and its topology's walk ended
    there).

    Example: tests/passes/fixtures/walked.txt.
    """
    nodes = stream_nodes.select(_NODE_COLUMNS)
    topologies, ids = nodes[TOPOLOGY].to_numpy(), nodes["id"].to_numpy()
    sources, targets = (edge_ends[end].to_numpy() for end in ("source_row", "target_row"))
    rows = StreamGraphRows(
        topologies,
        ids,
        uid_hashes(nodes["uid"].to_arrow(compat_level=pl.CompatLevel.oldest())),
        nodes["no_output_until_end_of_input"].to_numpy(),
        nodes["among_sources"].to_numpy(),
    )
    columns = ("out_index", "in_index", "chainable", "chained_source")
    edges = GraphEdges(sources, targets, *(stream_edges[name].to_numpy() for name in columns))
    return walk_nodes(rows, edges)


def walk_nodes(nodes: "StreamGraphRows", edges: GraphEdges) -> pl.DataFrame:
    """walk_stream_graph of nodes in any order, whose rows `edges` connect."""
    topologies, ids, (named, halves), no_output, among_sources = nodes
    if _is_in_order(topologies, ids):
        return _walk_in_order(nodes, edges)
    rows = np.lexsort((ids, topologies))
    places = np.empty_like(rows)
    places[rows] = np.arange(len(rows))
    uids = UidHashes(named[rows], halves[rows] if len(halves) else halves)
    ordered = StreamGraphRows(topologies[rows], ids[rows], uids, no_output[rows], among_sources[rows])
    moved = edges._replace(sources=places[edges.sources], targets=places[edges.targets])
    return _walk_in_order(ordered, moved)[places]


def _is_in_order(topologies: Ints, ids: Ints) -> bool:
    """Return whether the rows of each topology are contiguous, with ascending ids."""
    starts_new = topologies[1:] != topologies[:-1]
    pieces = np.sort(topologies[np.flatnonzero(np.append(True, starts_new)[: len(topologies)])])
    return bool((starts_new | (ids[1:] > ids[:-1])).all() and (pieces[1:] != pieces[:-1]).all())


class StreamGraphRows(NamedTuple):
    """Columns of nodes."""

    topologies: Ints
    ids: Ints
    uids: UidHashes
    no_output: Flags  #: emits nothing before the end of its input
    among_sources: Flags


def _walk_in_order(nodes: StreamGraphRows, edges: GraphEdges) -> pl.DataFrame:
    """walk_nodes of nodes by topology and id."""
    graph = stream_graph_arrays(nodes.topologies, nodes.uids, nodes.no_output, nodes.among_sources, edges)
    ids, colliding = generate_operator_ids(graph)
    order = order_depth_first(graph)
    reached = order.vertex[order.vertex >= 0]
    before = np.append(0, np.cumsum(np.bincount(reached)))
    operator_place = before[order.vertex] + order.operator_order
    chain_index, chained_source_index = order.distance + HEAD, np.zeros_like(order.distance)
    head, vertex = order.head, order.vertex
    chained_rows, head_rows = edges.sources[edges.chained_source], edges.targets[edges.chained_source]
    head[chained_rows], vertex[chained_rows], chain_index[chained_rows] = (
        head_rows,
        vertex[head_rows],
        CHAINED_SOURCE,
    )
    chained_source_index[chained_rows] = edges.in_indexes[edges.chained_source]
    collides = np.zeros(len(head), np.bool_)
    collides[colliding] = True
    return pl.DataFrame(
        {
            "vertex": nodes.ids[head],
            "vertex_place": vertex.astype(np.int32),
            "chain_index": chain_index.astype(np.int32),
            "chained_source_index": chained_source_index.astype(np.int32),
            "operator_order": order.operator_order.astype(np.int32),
            "id_lower": ids[:, 0],
            "id_upper": ids[:, 1],
            "operator_place": operator_place.astype(np.int32),
            "preorder": order.preorder.astype(np.int32),
            "branch": order.branch.astype(np.int32),
            "closings": order.closings.astype(np.int32),
            "no_output": order.no_output,
            "colliding": collides,
        }
    )


def mark_local_reasons(edges_with_ends: pl.DataFrame) -> pl.DataFrame:
    """All reasons that an edge and its two ends decide.

    In: edges_with_ends (see choose_partitioners). Out: the same rows with reasons (bit set over
    NotChainableReason) and chained_source (the edge's source runs inside the head at its other end).

    Source: StreamingJobGraphGenerator.isChainable, isChainableInput, isChainableSource,
    areOperatorsChainable.

    Example: tests/passes/fixtures/marked_edges.txt.
    """
    reasons = edges_with_ends.select(_LOCAL_REASONS)
    return edges_with_ends.drop(_NOT_NEEDED).hstack(reasons).with_columns(_CHAINED_SOURCE)


def mark_chainable_edges(
    marked_edges: pl.DataFrame, edge_ends: pl.DataFrame, chain_heads: pl.DataFrame
) -> pl.DataFrame:
    """The StreamGraph's edges with their verdicts on chaining.

    In: marked_edges (see mark_local_reasons), edge_ends, chain_heads (see find_chain_heads). Out:
    stream_edges.

    Source: StreamingJobGraphGenerator.areOperatorsChainable: a yielding operator may not follow a legacy
    source in its chain. StreamGraphGenerator.generate: if one input of a node needs aligned checkpoints, all
    of them do.

    Example: tests/passes/fixtures/stream_edges.txt.
    """
    return settle_edges(marked_edges, edge_ends, _after_legacy_sources(marked_edges, chain_heads))


def settle_edges(marked_edges: pl.DataFrame, edge_ends: pl.DataFrame, behind_legacy: Ints) -> pl.DataFrame:
    """As mark_chainable_edges; `behind_legacy`: edges of legacy sources' chains to yielding operators."""
    sets = marked_edges["reasons"].to_numpy().copy()
    sets[behind_legacy] |= _YIELDING
    set_occurs = np.zeros(1 << len(NotChainableReason), bool)
    set_occurs[sets] = True
    lists = _named(np.flatnonzero(set_occurs)).gather((np.cumsum(set_occurs) - 1)[sets])
    forced = marked_edges.select(_FORCES_ALIGNMENT).to_series().to_numpy()
    targets = edge_ends["target_row"].to_numpy()
    aligned = np.zeros(targets.max(initial=-1) + 1, bool)
    aligned[targets[forced]] = True
    return marked_edges.with_columns(
        supports_unaligned_checkpoints=_UNALIGNED & ~pl.Series(values=aligned[targets]),
        chainable=pl.Series(values=sets == 0),
        not_chainable_reasons=lists,
    ).select(STREAM_EDGES.names)


def _named(sets: Ints) -> pl.Series:
    """Return the names of the reasons in each set, via Arrow, because polars takes ten times as long for
    lists.
    """
    names = [[reason.value for reason in NotChainableReason if bits & reason.bit] for bits in sets.tolist()]
    return pl.Series(values=pa.array(names, pa.list_(pa.string())))


def _after_legacy_sources(marked_edges: pl.DataFrame, chain_heads: pl.DataFrame) -> Ints:
    """Return the edges whose target yields and whose source is, or is chained to, a legacy source."""
    yielding = edges_to_yielding(marked_edges)
    legacy_heads = chain_heads.filter("head_is_legacy_source").select(TOPOLOGY, "node", chained_to_one=True)
    cut_edges = look_up(yielding, legacy_heads, {"source": "node"}).filter(
        pl.col("legacy_source") | pl.col("chained_to_one").is_not_null()
    )
    return ints(cut_edges, "edge")


def edges_to_yielding(marked_edges: pl.DataFrame) -> pl.DataFrame:
    """edge (its row), topology_id, source, legacy_source of the edges whose target yields."""
    return marked_edges.select(_YIELDING_COLUMNS).filter("yielding")


_NOT_NEEDED = ("forward", "chaining_enabled", "chain_different_max_parallelism")
_YIELDING = NotChainableReason.YIELDING_BEHIND_LEGACY_SOURCE.bit
_UNALIGNED = pl.col("supports_unaligned_checkpoints")
_FORCES_ALIGNMENT = (pl.col("in_degree") > 1) & ~_UNALIGNED
_LOCAL_REASONS = pl.sum_horizontal(
    pl.when(condition).then(reason.bit).otherwise(0)
    for reason, condition in local_conditions(
        EdgeExpressions(pl.col, pl.Expr.fill_null, pl.col("forward"))
    ).items()
).alias("reasons")
_CHAINED_SOURCE = (
    pl.col("source_source")
    & (pl.col("out_degree") == 1)
    & (pl.col("target_chaining") == ChainingStrategy.HEAD_WITH_SOURCES)
    & ((pl.col("reasons") & ~NotChainableReason.SEVERAL_INPUTS.bit) == 0)
).alias("chained_source")
_YIELDING_COLUMNS = (
    pl.int_range(pl.len()).alias("edge"),
    pl.col(TOPOLOGY),
    pl.col("source"),
    pl.col("source_legacy_source").alias("legacy_source"),
    pl.col("target_yielding").alias("yielding"),
)


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

    In: marked_edges (see mark_local_reasons). Out (key topology_id, node): head, distance (operators between
    the two, plus one), head_is_legacy_source. A chain that a legacy source heads is cut above each first
    yielding operator: that operator is a head then, and has no row.

    The pointers of all topologies double their reach at once, in arrays. An edge that may chain is its
    target's only one, so that nothing branches upwards.

    Source: StreamingJobGraphGenerator.getHeadOperator, createChain (chain index) and areOperatorsChainable
    (yielding operators), without their recursion.

    Example: tests/passes/fixtures/chain_heads.txt.
    """
    return walk(chain_pointers(marked_edges), ["node"], find_heads, HEADS)


def chain_pointers(marked_edges: pl.DataFrame) -> pl.DataFrame:
    """The rows that find_heads reads: a node that is chained to another one points at it."""
    return marked_edges.select(_POINTERS).filter("chains").drop("chains")
