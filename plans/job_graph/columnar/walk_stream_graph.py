"""The two sequential walks over a StreamGraph."""

from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.job_graph.columnar.create_vertices import CHAINED_SOURCE, HEAD
from penstock.plans.job_graph.generate_operator_ids import generate_operator_ids
from penstock.plans.job_graph.order_depth_first import order_depth_first
from penstock.plans.job_graph.stream_graph_arrays import GraphEdges, stream_graph_arrays
from penstock.plans.job_graph.uid_hashes import UidHashes, uid_hashes
from penstock.plans.tables.column_types import TOPOLOGY

_OF_NODES = (TOPOLOGY, "id", "uid", "no_output_until_end_of_input", "among_sources")


def walk_stream_graph(
    stream_nodes: pl.DataFrame, stream_edges: pl.DataFrame, edge_ends: pl.DataFrame
) -> pl.DataFrame:
    """Properties of nodes that need a walk in Flink's order: one row per row of stream_nodes.

    Out: id_lower, id_upper, preorder, branch, closings, no_output as in joins.walk_stream_graph;
    vertex (head of the chain); vertex_place (number of the vertex in the order in which Flink creates them,
    which is its row in chain_vertices; -1: the node is in none); chain_index; chained_source_index (place of
    a source among those in one head); operator_order; operator_place (by vertex and operator_order among all
    operators that are no chained sources); colliding (its uid does, and its topology's walk ended there).

    Example: tests/passes/fixtures/walked.txt.
    """
    nodes = stream_nodes.select(_OF_NODES)
    topologies, ids = nodes[TOPOLOGY].to_numpy(), nodes["id"].to_numpy()
    sources, targets = (edge_ends[end].to_numpy() for end in ("source_row", "target_row"))
    if _is_in_order(topologies, ids):
        return _walk(nodes, stream_edges, sources, targets)
    rows = np.lexsort((ids, topologies))
    places = np.empty_like(rows)
    places[rows] = np.arange(len(rows))
    return _walk(nodes[rows], stream_edges, places[sources], places[targets])[places]


def _is_in_order(topologies: Ints, ids: Ints) -> bool:
    """Whether the rows of each topology stand together, with ids in order."""
    starts_new = topologies[1:] != topologies[:-1]
    pieces = np.sort(topologies[np.flatnonzero(np.append(True, starts_new)[: len(topologies)])])
    return bool((starts_new | (ids[1:] > ids[:-1])).all() and (pieces[1:] != pieces[:-1]).all())


class StreamGraphRows(NamedTuple):
    """Nodes by topology and id, a column each."""

    topologies: Ints
    ids: Ints
    uids: UidHashes
    no_output: Flags  #: emits nothing before the end of its input
    among_sources: Flags


def _walk(nodes: pl.DataFrame, stream_edges: pl.DataFrame, sources: Ints, targets: Ints) -> pl.DataFrame:
    """The walks over nodes in order; the edges lead from the rows `sources` to the rows `targets`."""
    rows = StreamGraphRows(
        nodes[TOPOLOGY].to_numpy(),
        nodes["id"].to_numpy(),
        uid_hashes(nodes["uid"].to_arrow(compat_level=pl.CompatLevel.oldest())),
        nodes["no_output_until_end_of_input"].to_numpy(),
        nodes["among_sources"].to_numpy(),
    )
    columns = ("out_index", "in_index", "chainable", "chained_source")
    edges = GraphEdges(sources, targets, *(stream_edges[name].to_numpy() for name in columns))
    return walk_rows(rows, edges)


def walk_rows(nodes: StreamGraphRows, edges: GraphEdges) -> pl.DataFrame:
    """walk_stream_graph of nodes in order, whose rows `edges` connect."""
    graph = stream_graph_arrays(nodes.topologies, nodes.uids, nodes.no_output, nodes.among_sources, edges)
    ids, colliding = generate_operator_ids(graph)
    order = order_depth_first(graph)
    reached = order.vertex[order.vertex >= 0]
    before = np.append(0, np.cumsum(np.bincount(reached)))
    operator_place = before[order.vertex] + order.operator_order
    chain_index, chained_source_index = order.distance + HEAD, np.zeros_like(order.distance)
    head, vertex = order.head, order.vertex
    runs_in, into = edges.sources[edges.chained_source], edges.targets[edges.chained_source]
    head[runs_in], vertex[runs_in], chain_index[runs_in] = into, vertex[into], CHAINED_SOURCE
    chained_source_index[runs_in] = edges.in_indexes[edges.chained_source]
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
