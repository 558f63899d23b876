"""Job vertices and edges between them, as given, as a topology: one operator that is not chained for each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.plans.importing.stream_graph_form import (
    BUFFER_TIMEOUT_MILLISECONDS,
    stream_edge,
    stream_graph,
    stream_node,
)
from penstock.plans.importing.vertex_order import children_in_order
from penstock.plans.vocabulary import (
    GlobalStreamExchangeMode,
    JobType,
    Kind,
    ResultPartitionType,
    StreamExchangeMode,
)

ASSUMED = {
    "operators of a vertex": "one, not chained",
    "uid_hash": "the vertex id",
    "managed_memory": "none",
    "intermediate data sets": "one for each edge, if not blocking and of equal partitioners",
    "boundedness of sources": "bounded",
}
"""What a job graph's JSON does not hold, and what is planned instead."""

_MODES = {
    ResultPartitionType.PIPELINED_BOUNDED: StreamExchangeMode.PIPELINED,
    ResultPartitionType.PIPELINED: StreamExchangeMode.PIPELINED,
    ResultPartitionType.PIPELINED_APPROXIMATE: StreamExchangeMode.UNDEFINED,  # as the job's mode says
    ResultPartitionType.BLOCKING: StreamExchangeMode.BATCH,
    ResultPartitionType.BLOCKING_PERSISTENT: StreamExchangeMode.BATCH,
    ResultPartitionType.HYBRID_FULL: StreamExchangeMode.HYBRID_FULL,
    ResultPartitionType.HYBRID_SELECTIVE: StreamExchangeMode.HYBRID_SELECTIVE,
}
EXCHANGES = tuple(kind.lower() for kind in ResultPartitionType)
"""What Flink calls the result partition types in its JSON."""


class VertexInput(NamedTuple):
    """An edge into a vertex."""

    source: str
    ship_strategy: str
    exchange: str
    type_number: int = 0


class Vertex(NamedTuple):
    """A job vertex; `known` are keys of a stream node that the document holds."""

    id: str
    name: str
    parallelism: int
    inputs: Sequence[VertexInput]
    known: Mapping[str, Any]


def topology_of_vertices(name: str, job_type: str, vertices: Sequence[Vertex], tree: bool) -> dict[str, Any]:
    """A topology of vertices in the order in which Flink creates them; all inputs are among them.

    `tree`: Flink describes vertices as trees, not on one line.
    """
    inputs = {vertex.id: vertex.inputs for vertex in vertices}
    created = [vertex.id for vertex in vertices]
    outgoing: dict[str, list[tuple[str, int]]] = {vertex_id: [] for vertex_id in created}
    for vertex in vertices:
        for place, read in enumerate(vertex.inputs):
            outgoing[read.source].append((vertex.id, place))
    orders = children_in_order(
        created, {vertex_id: [to for to, _ in outputs] for vertex_id, outputs in outgoing.items()}
    )
    # Flink begins with the source of the smallest number.
    numbers = {vertex_id: number for number, vertex_id in enumerate(created, 1)}
    edges = {}
    for source in created:
        for at in orders[source]:
            target, place = outgoing[source][at]
            read = inputs[target][place]
            mode = _MODES[ResultPartitionType(read.exchange.upper())]
            # Flink considers a timeout a mistake on edges that are written completely before they are read.
            pipelined = mode in (StreamExchangeMode.PIPELINED, StreamExchangeMode.UNDEFINED)
            edges[target, place] = stream_edge(
                numbers[source],
                numbers[target],
                read.ship_strategy,
                type_number=read.type_number,
                exchange_mode=str(mode),
                buffer_timeout=BUFFER_TIMEOUT_MILLISECONDS if pipelined else -1,
            )
    approximate = any(
        read.exchange == ResultPartitionType.PIPELINED_APPROXIMATE.lower()
        for vertex in vertices
        for read in vertex.inputs
    )
    graph = stream_graph(
        [
            stream_node(
                numbers[vertex.id],
                vertex.name,
                vertex.parallelism,
                Kind.ONE_INPUT if vertex.inputs else Kind.SOURCE,
                **{"uid_hash": vertex.id, **vertex.known},
            )
            for vertex in vertices
        ],
        list(edges.values()),
        [numbers[vertex.id] for vertex in vertices if not vertex.inputs],
        in_order=[edges[key] for vertex in vertices for key in _keys(vertex)],
        chaining_enabled=False,
        dynamic=job_type == JobType.BATCH and any(vertex.parallelism < 0 for vertex in vertices),
        global_exchange_mode=str(
            GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE
            if approximate
            else GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
        ),
        job_type=job_type,
        all_vertices_in_same_slot_sharing_group=job_type != JobType.BATCH,
        vertex_description_mode="TREE" if tree else "CASCADING",
    )
    return {"name": name, "stream_graph": graph}


def _keys(vertex: Vertex) -> list[tuple[str, int]]:
    return [(vertex.id, place) for place in range(len(vertex.inputs))]
