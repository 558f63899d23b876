"""Stream graphs of whole topologies as flat arrays, for the sequential walks."""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.plans.frames.arrays import Flags, Ints, positions, topologies_of
from penstock.plans.job_graph.uid_hashes import UidHashes

Value = TypeVar("Value", bound=np.generic)


class StreamGraphArrays(NamedTuple):
    """Nodes of all topologies in one numbering (by topology, then id); adjacency as offsets and targets."""

    bounds: Ints  #: topology t has the nodes bounds[t] to bounds[t + 1]
    uids: UidHashes
    no_output: Flags
    sources: Ints  #: the nodes at which walks start
    out_bounds: Ints  #: node n has the output edges out_bounds[n] to out_bounds[n + 1], in Flink's order
    out_targets: Ints
    chainable: Flags  #: per output edge
    chained_source: Flags  #: per output edge
    in_bounds: Ints
    in_sources: Ints  #: producers per node, in the order of the node's input edges


class GraphEdges(NamedTuple):
    """Edges between numbered nodes; the indexes of a node's edges count from 0 at either end."""

    sources: Ints
    targets: Ints
    out_indexes: Ints
    in_indexes: Ints
    chainable: Flags
    chained_source: Flags


def stream_graph_arrays(
    topologies: Ints, uids: UidHashes, no_output: Flags, is_source: Flags, edges: GraphEdges
) -> StreamGraphArrays:
    """Build the arrays from nodes, sorted by topology and number, and from edges in any order."""
    count = len(topologies)
    sources, targets = (ends.astype(np.int32, copy=False) for ends in (edges.sources, edges.targets))
    out_bounds, in_bounds = _bounds(sources, count), _bounds(targets, count)
    by_source = out_bounds[sources] + edges.out_indexes
    by_target = in_bounds[targets] + edges.in_indexes
    starts = np.flatnonzero(np.concatenate(([True], topologies[1:] != topologies[:-1])))
    return StreamGraphArrays(
        bounds=np.append(starts, count),
        uids=uids,
        no_output=no_output,
        sources=np.flatnonzero(is_source),
        out_bounds=out_bounds,
        out_targets=_placed(targets, by_source),
        chainable=_placed(edges.chainable, by_source),
        chained_source=_placed(edges.chained_source, by_source),
        in_bounds=in_bounds,
        in_sources=_placed(sources, by_target),
    )


def arrays_of_rows(nodes: pa.Table, edges: pa.Table) -> StreamGraphArrays:
    """Build the arrays from node rows sorted by topology and id, and edge rows sorted by topology, id and
    out_index.

    Node rows contain the hash of the uid: uid_lower and uid_upper.
    """
    topologies = topologies_of(nodes)
    position = positions(topologies, nodes.column("id").to_numpy())
    edge_topologies = topologies_of(edges)
    # Positions have 64 bits, which take much memory for many rows.
    sources, targets = (
        position(edge_topologies, edges.column(end).to_numpy()).astype(np.int32) for end in ("id", "target")
    )
    del edge_topologies, position
    return stream_graph_arrays(
        topologies,
        _uid_hashes(nodes),
        _flags(nodes, "no_output"),
        _flags(nodes, "source"),
        GraphEdges(
            sources,
            targets,
            edges.column("out_index").to_numpy(),
            edges.column("in_index").to_numpy(),
            _flags(edges, "chainable"),
            _flags(edges, "chained_source"),
        ),
    )


def _uid_hashes(nodes: pa.Table) -> UidHashes:
    named = np.asarray(nodes.column("uid_lower").is_valid())
    if not named.any():
        return UidHashes(named, np.zeros((0, 2), np.uint64))
    halves = [nodes.column(half).fill_null(0).to_numpy() for half in ("uid_lower", "uid_upper")]
    return UidHashes(named, np.column_stack(halves).view(np.uint64))


def _bounds(ends: Ints, count: int) -> Ints:
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(ends, minlength=count), out=bounds[1:])
    return bounds


def _placed(values: npt.NDArray[Value], places: Ints) -> npt.NDArray[Value]:
    placed = np.empty_like(values)
    placed[places] = values
    return placed


def _flags(rows: pa.Table, name: str) -> Flags:
    return np.asarray(rows.column(name).fill_null(False), dtype=np.bool_)
