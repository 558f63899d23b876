"""`stream_graph` lines to a StreamGraph."""

from collections.abc import Mapping
from typing import Any

from tests.reference.settings import settings_of_stream_graph
from tests.reference.stream_graph import Partitioner, StreamEdge, StreamGraph, StreamNode


def read_stream_graph(topology: Mapping[str, Any]) -> StreamGraph:
    """The edge lists of the nodes give the order."""
    given = topology["stream_graph"]
    graph = StreamGraph(settings_of_stream_graph(topology))
    graph.sources = list(given["sources"])
    edges = {e["edge_id"]: _edge(e, given) for e in given["edges"]}
    for n in given["nodes"]:
        graph.nodes[n["id"]] = StreamNode(
            id=n["id"],
            name=n["name"],
            parallelism=n["parallelism"],
            max_parallelism=n["max_parallelism"],
            invokable=n["invokable"],
            chaining=n["chaining"],
            parallelism_configured=n["parallelism_configured"],
            slot_sharing_group=n["slot_sharing_group"],
            co_location_group=n["co_location_group"],
            uid=n["uid"],
            uid_hash=n["uid_hash"],
            buffer_timeout=n["buffer_timeout"],
            source=n["source"],
            legacy_source=n["legacy_source"],
            yielding=n["yielding"],
            ends_before_output=n["no_output_until_end_of_input"] or n["output_only_after_end_of_stream"],
            weights=dict(n["managed_memory"]),
            slot_scope=set(n["slot_scope"]),
            in_edges=[edges[e] for e in n["in_edges"]],
            out_edges=[edges[e] for e in n["out_edges"]],
        )
    return graph


def _edge(e: Mapping[str, Any], graph: Mapping[str, Any]) -> StreamEdge:
    return StreamEdge(
        source=e["source"],
        target=e["target"],
        type_number=e["type_number"],
        partitioner=Partitioner(
            e["partitioner"], e["partitioner_class"], _key(e, graph), e["pointwise"], e["broadcast"]
        ),
        exchange_mode=e["exchange_mode"],
        output_tag=e["output_tag"],
        edge_id=e["edge_id"],
        unique_id=int(e["edge_id"].rpartition("_")[2]),
        buffer_timeout=e["buffer_timeout"],
        persistent_data_set=e.get("persistent_data_set"),
    )


def _key(e: Mapping[str, Any], graph: Mapping[str, Any]) -> str:
    """Those with a key selector or a user's function are taken as different where the graph does not say."""
    by_fields = ("HashPartitioner", "KeyGroupStreamPartitioner", "CustomPartitionerWrapper")
    if graph.get("partitioners_compared") and e["partitioner_class"].endswith(by_fields):
        return str(e.get("equal_partitioner", e["edge_id"]))
    if e["partitioner_class"] in ("KeyGroupStreamPartitioner", "CustomPartitionerWrapper"):
        return str(e["edge_id"])
    return f"{e['partitioner_class']} {e['partitioner']}"
