"""Stream graphs of whole topologies as flat arrays: what the sequential walks run over."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from plans.arrow_walks import Ints, missing_node, positions
from plans.frames import TOPOLOGY

Flags = npt.NDArray[np.bool_]


class StreamGraphArrays(NamedTuple):
    """Nodes of all topologies in one numbering (by topology, then id); adjacency as offsets and targets."""

    topologies: Ints  #: topology_id of each topology
    bounds: Ints  #: topology t has the nodes bounds[t] to bounds[t + 1]
    node_topologies: Ints
    node_ids: Ints
    uids: pa.Array
    no_output: Flags
    sources: Ints  #: the nodes at which walks start
    out_bounds: Ints  #: node n has the output edges out_bounds[n] to out_bounds[n + 1], in Flink's order
    out_targets: Ints
    chainable: Flags  #: per output edge
    chained_source: Flags  #: per output edge
    in_bounds: Ints
    in_sources: Ints  #: producers per node, in the order of the node's input edges
    edge_sources: Ints  #: per output edge, with edge_out_indexes its key
    edge_out_indexes: Ints
    edge_ids: pa.Array  #: Flink's edge id; null where no job edge comes of it


def stream_graph_arrays(rows: pa.Table) -> StreamGraphArrays:
    """Arrays of a table of node rows (target null) and edge rows, sorted by topology, id and out_index."""
    is_node = np.asarray(rows.column("target").is_null())
    nodes, edges = rows.filter(pa.array(is_node)), rows.filter(pa.array(~is_node))
    node_topologies = nodes.column(TOPOLOGY).to_numpy()
    starts = np.flatnonzero(np.concatenate(([True], node_topologies[1:] != node_topologies[:-1])))
    node_ids = nodes.column("id").to_numpy().astype(np.int64)
    # Edges stand behind their source.
    sources = (np.cumsum(is_node) - 1)[~is_node]
    edge_topologies, edge_sources = edges.column(TOPOLOGY).to_numpy(), edges.column("id").to_numpy()
    if (node_topologies[sources] != edge_topologies).any() or (node_ids[sources] != edge_sources).any():
        raise missing_node()
    targets = positions(node_topologies, node_ids)(edge_topologies, edges.column("target").to_numpy())
    by_target = np.argsort(targets << 32 | edges.column("in_index").to_numpy())
    count = len(node_ids)
    return StreamGraphArrays(
        topologies=node_topologies[starts],
        bounds=np.append(starts, count),
        node_topologies=node_topologies,
        node_ids=node_ids,
        uids=nodes.column("uid").combine_chunks(),
        no_output=_flags(nodes, "no_output"),
        sources=np.flatnonzero(_flags(nodes, "source")),
        out_bounds=np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=count)))),
        out_targets=targets,
        chainable=_flags(edges, "chainable"),
        chained_source=_flags(edges, "chained_source"),
        in_bounds=np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=count)))),
        in_sources=sources[by_target],
        edge_sources=edge_sources,
        edge_out_indexes=edges.column("out_index").to_numpy(),
        edge_ids=edges.column("edge_id").combine_chunks(),
    )


def _flags(rows: pa.Table, name: str) -> Flags:
    return np.asarray(rows.column(name).fill_null(False), dtype=np.bool_)
