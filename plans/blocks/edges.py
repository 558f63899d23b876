"""Stream edges, block by block, and the walk over the stream graph."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from penstock.plans.blocks.giant import Giant, reasons
from penstock.plans.blocks.messages import WALK, Inbox, Message
from penstock.plans.blocks.nodes import ATTRIBUTES
from penstock.plans.frames.arrays import Halves, Ints
from penstock.plans.job_graph.choose_result_partition_types import OF_EDGES
from penstock.plans.job_graph.create_vertices import NODE_COLUMNS
from penstock.plans.job_graph.java_hashes import java_string_hashes
from penstock.plans.job_graph.mark_chainable_edges import (
    StreamGraphRows,
    chain_pointers,
    edges_to_yielding,
    mark_local_reasons,
    settle_edges,
    walk_nodes,
)
from penstock.plans.job_graph.order_depth_first import find_heads
from penstock.plans.job_graph.refuse_job_graphs import (
    chained_sources,
    refuse_job_settings,
    unaligned_custom_partitioners,
)
from penstock.plans.job_graph.stream_graph_arrays import GraphEdges
from penstock.plans.job_graph.uid_hashes import UidHashes, uid_hashes
from penstock.plans.stream_graph.choose_partitioners import SOURCE_ATTRIBUTES
from penstock.plans.stream_graph.refuse_stream_graphs import (
    forward_changes,
    refuse_settings_of_edges,
)
from penstock.plans.stream_graph.translate_transformations import (
    choose_partitioners,
    given_edges_with_ends,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

_OLDEST = pl.CompatLevel.oldest()
_NO_EDGES = np.zeros(0, np.int64)


def make_edges(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Edges into the block's nodes, with their partitioners and all reasons that both ends give.

    If a legacy source may head a chain with an operator that yields, `cut_chains` needs an answer first. To
    WALK then: pointers, yielding; to the block: marked, ends, nodes.
    """
    nodes, edges = inbox.one("nodes"), inbox.one("edges")
    target_row = edges["target_row"].to_numpy()
    if inbox.has("kept"):
        target_row = inbox.one("kept")["place"].to_numpy()[target_row]
    numbers, ends, with_halo = _ends(giant, block, nodes, target_row, inbox)
    if "node_id" in numbers.columns:
        edges = edges.with_columns(numbers["node_id"].alias("source"))
    if giant.graph:
        marked = given_edges_with_ends(edges.drop("target_row"), ends, with_halo, giant.job_settings)
        marked = mark_local_reasons(marked.with_columns(numbers["out_degree"]))
    else:
        resolved = giant.with_topology(edges.drop("target_row"))
        resolved = resolved.hstack(numbers.select("out_index", "out_degree"))
        chosen = choose_partitioners(resolved, ends, with_halo, giant.job_settings, pl.DataFrame())
        marked = mark_local_reasons(chosen)
    yield from reasons(forward_changes(marked, nodes))
    if not giant.traits.cuts:
        yield from _settled(giant, block, nodes, marked, settle_edges(marked, ends, _NO_EDGES), ends)
        return
    yield Message(WALK, "pointers", chain_pointers(marked).drop(TOPOLOGY))
    yield Message(WALK, "yielding", edges_to_yielding(marked).select("source", "legacy_source"))
    yield Message(block, "marked", marked)
    yield Message(block, "ends", ends)
    yield Message(block, "nodes", nodes)


def _ends(
    giant: Giant, block: int, nodes: pl.DataFrame, target_row: Ints, inbox: Inbox
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the answers about the sources of edges, the rows of both ends, and the nodes at these rows.

    Nodes of the block come first, then a row for each edge from another block.
    """
    answers = inbox.frames("answer")
    names = ("place", "out_index", "out_degree", *(["node_id"] if giant.traits.highest_node_id else []))
    no_answer = pl.DataFrame(schema=dict.fromkeys(names, pl.Int32))
    parts = [answer.select(set(no_answer.columns) & set(answer.columns)) for _, answer in answers]
    numbers = pl.concat([no_answer, *parts], how="diagonal")
    lengths = [len(answer) for _, answer in answers]
    source_block = np.repeat(np.array([owner for owner, _ in answers], np.int32), lengths)
    own = nodes.select(ATTRIBUTES)
    halo = [answer.select(SOURCE_ATTRIBUTES) for owner, answer in answers if owner != block]
    source_row = numbers["place"].to_numpy().copy()
    remote = np.flatnonzero(source_block != block)
    source_row[remote] = len(own) + np.arange(len(remote))
    with_halo = pl.concat([own, *halo], how="diagonal").rechunk() if halo else own
    ends = pl.DataFrame(
        {
            "source_row": source_row,
            "target_row": target_row.astype(np.int32),
            "source_block": source_block,
            "source_place": numbers["place"],
        }
    )
    return numbers, ends, with_halo


def find_cuts(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block: behind_legacy (a flag for each of its edges to operators that yield, in order, whether
    its source is a legacy source or is chained to one).
    """
    pointers = pl.concat([frame for _, frame in inbox.frames("pointers")]).sort("node")
    chained = np.zeros(0, np.int32)
    if len(pointers):
        heads = find_heads(giant.with_topology(pointers).to_arrow(compat_level=_OLDEST))
        legacy = np.asarray(heads.column("head_is_legacy_source"))
        chained = heads.column("node").to_numpy()[legacy]
    for block, frame in inbox.frames("yielding"):
        behind = np.isin(frame["source"].to_numpy(), chained) | frame["legacy_source"].to_numpy()
        yield Message(block, "behind_legacy", pl.DataFrame({"behind": behind}))


def cut_chains(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """The rest of make_edges."""
    marked, ends, nodes = (inbox.one(kind) for kind in ("marked", "ends", "nodes"))
    behind = inbox.one("behind_legacy")["behind"].to_numpy()
    rows = edges_to_yielding(marked)["edge"].cast(pl.Int64).to_numpy()[behind]
    yield from _settled(giant, block, nodes, marked, settle_edges(marked, ends, rows), ends)


def _settled(
    giant: Giant,
    block: int,
    nodes: pl.DataFrame,
    marked: pl.DataFrame,
    stream_edges: pl.DataFrame,
    ends: pl.DataFrame,
) -> Iterator[Message]:
    """stream_edges; to WALK: graph_nodes, graph_edges; to the block: nodes, job_edges (not chained)."""
    yield from giant.table("stream_edges", stream_edges)
    for refused in refuse_settings_of_edges(stream_edges, giant.job_settings):
        yield from reasons(refused)
    if not giant.has(Layer.JOB_GRAPH):
        return
    yield from reasons(unaligned_custom_partitioners(stream_edges, giant.job_settings))
    if giant.refuses_by_use:
        yield from reasons(refuse_job_settings(giant.job_settings))
        yield from reasons(_chained_sources(stream_edges, marked, giant.job_settings))
    yield Message(WALK, "graph_nodes", _graph_nodes(nodes))
    of_edges = stream_edges.select("out_index", "in_index", "chainable", "chained_source")
    yield Message(
        WALK, "graph_edges", of_edges.hstack(ends.select("source_block", "source_place", "target_row"))
    )
    unchained = stream_edges.select(~pl.col("chainable") & ~pl.col("chained_source")).to_series()
    hashes = java_string_hashes(stream_edges["edge_id"].filter(unchained).to_arrow(compat_level=_OLDEST))
    # A target that is not chained heads its vertex, which takes the target's parallelism.
    consumers = nodes.select(
        pl.col("parallelism").alias("consumer_parallelism"), pl.col("max_parallelism").alias("consumer_max")
    )
    job_edges = stream_edges.select(OF_EDGES).filter(unchained).drop(TOPOLOGY)
    job_edges = job_edges.with_columns(edge_hash=pl.Series(hashes))
    yield Message(block, "nodes", nodes.select("id", *NODE_COLUMNS))
    yield Message(block, "job_edges", job_edges.hstack(consumers[ends["target_row"].filter(unchained)]))


def _chained_sources(
    stream_edges: pl.DataFrame, marked: pl.DataFrame, settings: pl.DataFrame
) -> pl.DataFrame:
    """chained_sources for edges that are the only ones of their sources, which may be in any block."""
    only = (marked["out_degree"] == 1) & marked["source_source"]
    sources = marked.filter(only).select(
        TOPOLOGY, id="source", source=pl.lit(True), chaining="source_chaining"
    )
    targets = marked.filter(only).select(
        TOPOLOGY, id="target", source=pl.lit(False), chaining="target_chaining"
    )
    return chained_sources(stream_edges.filter(only), pl.concat([sources, targets.unique()]), settings)


def _graph_nodes(nodes: pl.DataFrame) -> pl.DataFrame:
    named, halves = uid_hashes(nodes["uid"].to_arrow(compat_level=_OLDEST))
    columns = {
        "id": nodes["id"],
        "named": named,
        "no_output": nodes["no_output_until_end_of_input"],
        "among_sources": nodes["among_sources"],
    }
    if len(halves):
        columns |= {"uid_lower": halves[:, 0], "uid_upper": halves[:, 1]}
    return pl.DataFrame(columns)


def walk_graph(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """Run the walks over the stream graph (see walk_stream_graph), over integers.

    To each block: walked (a row for each of its nodes), walked_edges (a row for each of its job edges), sizes
    (the number of vertices of a block).
    """
    nodes, edges = inbox.frames("graph_nodes"), inbox.frames("graph_edges")
    sizes, edge_sizes = ([len(frame) for _, frame in frames] for frames in (nodes, edges))
    blocks = [block for block, _ in nodes]
    assert blocks == [block for block, _ in edges]
    bounds, edge_bounds = (np.append(0, np.cumsum(of, dtype=np.int64)) for of in (sizes, edge_sizes))
    firsts = np.zeros(giant.blocks, np.int32)
    firsts[blocks] = bounds[:-1]

    ids = _column(nodes, "id")
    uids = UidHashes(_column(nodes, "named"), _halves([frame for _, frame in nodes]))
    flags = [_column(nodes, name) for name in ("no_output", "among_sources")]
    sources = firsts[_column(edges, "source_block")]
    sources += _column(edges, "source_place")
    targets = np.repeat(bounds[:-1].astype(np.int32), edge_sizes)
    targets += _column(edges, "target_row")
    graph_edges = GraphEdges(
        sources,
        targets,
        *(_column(edges, name) for name in ("out_index", "in_index", "chainable", "chained_source")),
    )
    del nodes, edges
    topologies = np.broadcast_to(np.int64(giant.topology), len(ids))
    walked = walk_nodes(StreamGraphRows(topologies, ids, uids, *flags), graph_edges)
    vertices = int(walked["vertex_place"].to_numpy().max(initial=-1)) + 1
    per_block = -(-vertices // giant.blocks)
    unchained = ~graph_edges.chainable & ~graph_edges.chained_source
    by_id = None if bool((ids[1:] > ids[:-1]).all()) else np.argsort(ids)
    heads = np.searchsorted(ids, walked["vertex"].to_numpy(), sorter=by_id)
    heads = heads if by_id is None else by_id[heads]
    head_ids = walked.select(head_lower="id_lower", head_upper="id_upper")
    of_sources = walked.select(
        pl.col("vertex").alias("source_vertex"),
        pl.col("vertex_place").alias("source_place"),
        "operator_place",
        "no_output",
    )
    places = walked["vertex_place"]
    for number, block in enumerate(blocks):
        start, end = bounds[number : number + 2].tolist()
        yield Message(block, "walked", walked.slice(start, end - start))
        of_block = np.arange(*edge_bounds[number : number + 2].tolist())
        of_block = of_block[unchained[of_block]]
        from_nodes, to_nodes = sources[of_block], targets[of_block]
        yield Message(
            block,
            "walked_edges",
            of_sources[from_nodes].hstack(
                [places[to_nodes].alias("target_place"), *head_ids[heads[from_nodes]].get_columns()]
            ),
        )
        yield Message(block, "sizes", pl.DataFrame({"per_block": [max(1, per_block)]}))


def _column(frames: list[tuple[int, pl.DataFrame]], name: str) -> Any:
    """Return a column of integers or of flags as an array."""
    return np.concatenate([frame[name].to_numpy() for _, frame in frames])


def _halves(nodes: list[pl.DataFrame]) -> Halves:
    """Return the hashes of all uids; no rows if no node has one (see UidHashes)."""
    names = ("uid_lower", "uid_upper")
    if not any("uid_lower" in frame.columns for frame in nodes):
        return np.zeros((0, 2), np.uint64)
    halves = np.zeros((sum(map(len, nodes)), 2), np.uint64)
    for (start, end), frame in zip(
        pairwise(np.append(0, np.cumsum([*map(len, nodes)])).tolist()), nodes, strict=True
    ):
        if "uid_lower" in frame.columns:
            halves[start:end] = frame.select(names).to_numpy()
    return halves
