"""Stream graphs of whole topologies as flat arrays: what the sequential walks run over."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from plans.arrow_walks import Ints, positions
from plans.frames import TOPOLOGY


class StreamGraphArrays(NamedTuple):
    """Nodes of all topologies in one numbering (by topology, then id); adjacency as offsets and targets."""

    topologies: Ints  #: topology_id of each topology
    bounds: list[int]  #: topology t has the nodes bounds[t] to bounds[t + 1]
    node_topologies: Ints
    node_ids: Ints
    uids: list[str | None]
    no_output: list[bool]
    sources: list[int]  #: the nodes at which walks start
    out_bounds: list[int]  #: node n has the output edges out_bounds[n] to out_bounds[n + 1], in Flink's order
    out_targets: list[int]
    chainable: list[bool]  #: per output edge
    chained_source: list[bool]  #: per output edge
    in_bounds: list[int]
    in_sources: list[int]  #: producers per node, in the order of the node's input edges
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
    position = positions(node_topologies, node_ids)
    edge_topologies = edges.column(TOPOLOGY).to_numpy()
    sources = position(edge_topologies, edges.column("id").to_numpy())
    targets = position(edge_topologies, edges.column("target").to_numpy())
    by_target = np.lexsort((edges.column("in_index").to_numpy(), targets))
    count = len(node_ids)
    return StreamGraphArrays(
        topologies=node_topologies[starts],
        bounds=[*starts.tolist(), count],
        node_topologies=node_topologies,
        node_ids=node_ids,
        uids=nodes.column("uid").to_pylist(),
        no_output=nodes.column("no_output").to_pylist(),
        sources=np.flatnonzero(np.asarray(nodes.column("source"))).tolist(),
        out_bounds=np.concatenate(([0], np.cumsum(np.bincount(sources, minlength=count)))).tolist(),
        out_targets=targets.tolist(),
        chainable=edges.column("chainable").to_pylist(),
        chained_source=edges.column("chained_source").to_pylist(),
        in_bounds=np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=count)))).tolist(),
        in_sources=sources[by_target].tolist(),
        edge_sources=edges.column("id").to_numpy(),
        edge_out_indexes=edges.column("out_index").to_numpy(),
        edge_ids=edges.column("edge_id").combine_chunks(),
    )
