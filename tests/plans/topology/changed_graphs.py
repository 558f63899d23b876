"""Pairs of stream graphs that differ in one key."""

from copy import deepcopy
from typing import Any

from tests.plans.topology.builders import PRINTED, stream_edge, stream_graph, stream_node

Topology = dict[str, Any]

BATCH = {"execution.runtime-mode": "BATCH"}
RESOURCES = {"cpu_cores": 1.0, "task_heap_memory_bytes": 1}
MORE_RESOURCES = RESOURCES | {"cpu_cores": 2.0}


def chained_graph() -> Topology:
    """1 -> 2 ~> 3, where the first two are chained; in STREAMING mode."""
    edges = [
        stream_edge(1, 2),
        stream_edge(2, 3, partitioner="REBALANCE", partitioner_class="RebalancePartitioner", pointwise=False),
    ]
    graph = stream_graph()
    graph["stream_graph"] |= {
        "nodes": [
            stream_node(
                1, source=True, out_edges=[edges[0]["edge_id"]], invokable="SourceOperatorStreamTask"
            ),
            stream_node(2, in_edges=[edges[0]["edge_id"]], out_edges=[edges[1]["edge_id"]]),
            stream_node(3, in_edges=[edges[1]["edge_id"]]),
        ],
        "edges": edges,
    }
    return graph


def graph_with(
    settings: Topology | None = None, nodes: Topology | None = None, edges: Topology | None = None
):
    """`chained_graph` with these values in all settings, nodes or edges."""
    topology = chained_graph()
    graph = topology["stream_graph"]
    graph |= settings or {}
    for entries, values in ((graph["nodes"], nodes), (graph["edges"], edges)):
        for entry in entries:
            entry.update(values or {})
    return topology


def changed(topology: Topology, part: str, key: str, value: Any, place: int = 1) -> Topology:
    """A copy with another value in one node, edge or setting."""
    other = deepcopy(topology)
    graph = other["stream_graph"]
    (graph if part == "setting" else graph[f"{part}s"][place])[key] = value
    return other


def with_other_ids() -> Topology:
    """`chained_graph` with node 3 called 4."""
    topology = chained_graph()
    graph = topology["stream_graph"]
    edge = graph["edges"][1] | {"target": 4, "edge_id": "n2-2_n4-4_0_FORWARD_0"}
    graph["edges"][1] = edge
    graph["nodes"][1]["out_edges"] = [edge["edge_id"]]
    graph["nodes"][2] |= {"id": 4, "in_edges": [edge["edge_id"]]}
    return topology


def forked_graph(partitioner_class: str, **settings: Any) -> Topology:
    """1 ~> 2 and 1 ~> 3 by this partitioner, as blocking data sets."""
    printed = PRINTED[partitioner_class]
    edges = [
        stream_edge(1, to, partitioner=printed, partitioner_class=partitioner_class, pointwise=False)
        | {"buffer_timeout": -1}
        for to in (2, 3)
    ]
    graph = stream_graph()
    source = stream_node(1, source=True, out_edges=[edge["edge_id"] for edge in edges])
    graph["stream_graph"] |= {
        "global_exchange_mode": "ALL_EDGES_BLOCKING",
        "nodes": [source, *(stream_node(n, in_edges=[edges[n - 2]["edge_id"]]) for n in (2, 3))],
        "edges": edges,
        **settings,
    }
    return graph


def reading_a_cache() -> Topology:
    """A node that reads a cached data set, chained to another one."""
    graph = stream_graph()
    graph["stream_graph"]["nodes"][0] |= {"source": False, "consumes_data_set": "0123456789abcdef" * 2}
    return graph


BASE = chained_graph()
BY_FIELDS, BY_KEY = forked_graph("BinaryHashPartitioner"), forked_graph("KeyGroupStreamPartitioner")
COMPARED = forked_graph("KeyGroupStreamPartitioner", partitioners_compared=True)
FIRST_EDGE = COMPARED["stream_graph"]["edges"][0]["edge_id"]
UNCHAINED = graph_with({"chaining_enabled": False})
DIFFERENT_MAX = changed(BASE, "node", "max_parallelism", 64)
DYNAMIC = graph_with(
    {"job_type": "BATCH", "dynamic": True, "global_exchange_mode": "ALL_EDGES_BLOCKING"},
    edges={"buffer_timeout": -1},
)
FORMATS = graph_with(nodes={"supports_concurrent_execution_attempts": True})
CHECKPOINTED = {
    **changed(BASE, "edge", "partitioner_class", "CustomPartitionerWrapper"),
    "config": {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.unaligned.enabled": "true",
    },
}
UNALIGNED = changed(CHECKPOINTED, "setting", "checkpointing", True)
OWN_PARTITIONER = changed(
    changed(BASE, "edge", "partitioner_class", "OwnPartitioner"), "edge", "partitioner", "OWN"
)
LEGACY = changed(BASE, "node", "yielding", True)

GRAPHS: dict[str, tuple[Topology, Topology]] = {
    "setting sources": (BASE, changed(BASE, "setting", "sources", [])),
    "setting sinks": (BASE, changed(BASE, "setting", "sinks", [3])),
    "setting chaining_enabled": (BASE, UNCHAINED),
    "setting global_exchange_mode": (
        BASE,
        graph_with({"global_exchange_mode": "ALL_EDGES_BLOCKING"}, edges={"buffer_timeout": -1}),
    ),
    "setting dynamic": (changed(DYNAMIC, "setting", "dynamic", False), DYNAMIC),
    "setting chain_different_max_parallelism": (
        DIFFERENT_MAX,
        changed(DIFFERENT_MAX, "setting", "chain_different_max_parallelism", False),
    ),
    "setting all_vertices_in_same_slot_sharing_group": (
        DYNAMIC,
        changed(DYNAMIC, "setting", "all_vertices_in_same_slot_sharing_group", False),
    ),
    "setting job_type": (
        changed(BASE, "edge", "exchange_mode", "HYBRID_FULL"),
        changed(changed(BASE, "edge", "exchange_mode", "HYBRID_FULL"), "setting", "job_type", "BATCH"),
    ),
    "setting vertex_description_mode": (
        BASE,
        changed(BASE, "setting", "vertex_description_mode", "CASCADING"),
    ),
    "setting vertex_name_include_index_prefix": (
        BASE,
        changed(BASE, "setting", "vertex_name_include_index_prefix", True),
    ),
    "setting partitioners_compared": (
        BY_FIELDS,
        changed(BY_FIELDS, "setting", "partitioners_compared", True),
    ),
    "node consumes_data_set": (
        reading_a_cache(),
        changed(reading_a_cache(), "node", "consumes_data_set", "0" * 32, 0),
    ),
    "edge persistent_data_set": (BY_KEY, changed(BY_KEY, "edge", "persistent_data_set", "0f" * 16)),
    "edge equal_partitioner": (COMPARED, changed(COMPARED, "edge", "equal_partitioner", FIRST_EDGE)),
    "setting checkpointing": (CHECKPOINTED, UNALIGNED),
    "node id": (BASE, with_other_ids()),
    "node source": (
        graph_with(nodes={"chaining": "HEAD_WITH_SOURCES"}),
        changed(graph_with(nodes={"chaining": "HEAD_WITH_SOURCES"}), "node", "source", False, 0),
    ),
    "node legacy_source": (LEGACY, changed(LEGACY, "node", "legacy_source", True, 0)),
    "node yielding": (
        changed(BASE, "node", "legacy_source", True, 0),
        changed(LEGACY, "node", "legacy_source", True, 0),
    ),
    "node parallelism_configured": (DYNAMIC, changed(DYNAMIC, "node", "parallelism_configured", True)),
    "node buffer_timeout": (BASE, changed(BASE, "node", "buffer_timeout", 7)),
    "node max_parallelism": (BASE, changed(BASE, "node", "max_parallelism", 64, 0)),
    "node co_location_group": (BASE, changed(BASE, "node", "co_location_group", "group", 0)),
    "node invokable": (BASE, changed(BASE, "node", "invokable", "OtherStreamTask", 0)),
    "node min_resources": (
        graph_with(nodes={"min_resources": RESOURCES, "preferred_resources": MORE_RESOURCES}),
        graph_with(nodes={"min_resources": MORE_RESOURCES, "preferred_resources": MORE_RESOURCES}),
    ),
    "node preferred_resources": (
        graph_with(nodes={"min_resources": RESOURCES, "preferred_resources": RESOURCES}),
        graph_with(nodes={"min_resources": RESOURCES, "preferred_resources": MORE_RESOURCES}),
    ),
    "node input_format": (FORMATS, changed(FORMATS, "node", "input_format", True)),
    "node output_format": (FORMATS, changed(FORMATS, "node", "output_format", True)),
    "node in_edges": (BASE, changed(BASE, "node", "in_edges", [])),
    "node out_edges": (BASE, changed(BASE, "node", "out_edges", [])),
    "edge edge_id": (BASE, with_other_ids()),
    "edge source": (BASE, changed(BASE, "edge", "source", 1)),
    "edge target": (BASE, changed(BASE, "edge", "target", 2)),
    "edge partitioner": (OWN_PARTITIONER, changed(OWN_PARTITIONER, "edge", "partitioner", "OTHER")),
    "edge partitioner_class": (
        UNALIGNED,
        changed(UNALIGNED, "edge", "partitioner_class", "RebalancePartitioner"),
    ),
    "edge output_tag": (
        graph_with({"global_exchange_mode": "ALL_EDGES_BLOCKING"}),
        changed(graph_with({"global_exchange_mode": "ALL_EDGES_BLOCKING"}), "edge", "output_tag", "late"),
    ),
    "edge buffer_timeout": (
        graph_with({"global_exchange_mode": "ALL_EDGES_BLOCKING"}, edges={"buffer_timeout": -1}),
        graph_with({"global_exchange_mode": "ALL_EDGES_BLOCKING"}),
    ),
}
