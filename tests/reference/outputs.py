"""Result partition types and which edges share a data set (mayReuseNonChainedOutputs)."""

from dataclasses import dataclass

from tests.reference.hashes import data_set_id
from tests.reference.stream_graph import Partitioner, StreamEdge, StreamGraph

HYBRID = ("HYBRID_FULL", "HYBRID_SELECTIVE")
_REUSABLE = ("BLOCKING", "BLOCKING_PERSISTENT", *HYBRID)
_BY_EXCHANGE_MODE = {
    "PIPELINED": "PIPELINED_BOUNDED",
    "BATCH": "BLOCKING",
    "HYBRID_FULL": "HYBRID_FULL",
    "HYBRID_SELECTIVE": "HYBRID_SELECTIVE",
}
_BY_GLOBAL_MODE = {
    "ALL_EDGES_BLOCKING": "BLOCKING",
    "ALL_EDGES_PIPELINED": "PIPELINED_BOUNDED",
    "ALL_EDGES_PIPELINED_APPROXIMATE": "PIPELINED_APPROXIMATE",
    "ALL_EDGES_HYBRID_FULL": "HYBRID_FULL",
    "ALL_EDGES_HYBRID_SELECTIVE": "HYBRID_SELECTIVE",
}


@dataclass(eq=False)
class Output:
    data_set: bytes
    partitioner: Partitioner
    type: str


def operator_outputs(
    graph: StreamGraph, vertex_id: bytes, edges: list[StreamEdge]
) -> dict[StreamEdge, Output]:
    """`edges`: all non-chained edges of one operator, in order."""
    outputs: dict[StreamEdge, Output] = {}
    reusable: dict[tuple[object, ...], Output] = {}
    for edge in edges:
        kind = _result_partition_type(graph, edge)
        if kind == "HYBRID_SELECTIVE" and edge.partitioner.broadcast:
            kind = "HYBRID_FULL"
        data_set = data_set_id(vertex_id, edge.edge_id)
        if kind == "BLOCKING" and edge.persistent_data_set is not None:
            kind, data_set = "BLOCKING_PERSISTENT", bytes.fromhex(edge.persistent_data_set)
        consumer = graph.nodes[edge.target]
        key = (
            "hybrid" if kind in HYBRID else kind,
            consumer.parallelism,
            consumer.max_parallelism,
            edge.output_tag,
            edge.partitioner.key,
            edge.persistent_data_set,
        )
        if kind in _REUSABLE and key in reusable:
            outputs[edge] = reusable[key]
            if reusable[key].type == "HYBRID_SELECTIVE":
                reusable[key].type = "HYBRID_FULL"
            continue
        outputs[edge] = reusable[key] = Output(data_set, edge.partitioner, kind)
    return outputs


def _result_partition_type(graph: StreamGraph, edge: StreamEdge) -> str:
    if edge.exchange_mode != "UNDEFINED":
        return _BY_EXCHANGE_MODE[edge.exchange_mode]
    if graph.nodes[edge.source].ends_before_output:
        edge.buffer_timeout = -1
        return "BLOCKING"
    mode = graph.settings.exchange
    if mode == "FORWARD_EDGES_PIPELINED":
        return "PIPELINED_BOUNDED" if edge.partitioner.forward else "BLOCKING"
    if mode == "POINTWISE_EDGES_PIPELINED":
        return "PIPELINED_BOUNDED" if edge.partitioner.pointwise else "BLOCKING"
    return _BY_GLOBAL_MODE[mode]
