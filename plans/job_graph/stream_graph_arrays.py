"""Stream graphs of whole topologies as flat arrays, for the sequential walks."""

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.plans.frames.arrays import Flags, Ints
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


def _bounds(ends: Ints, count: int) -> Ints:
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(ends, minlength=count), out=bounds[1:])
    return bounds


def _placed(values: npt.NDArray[Value], places: Ints) -> npt.NDArray[Value]:
    placed = np.empty_like(values)
    placed[places] = values
    return placed
