"""Stream graphs (docs/topology-files.md) built from the nodes and edges of imported documents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.stream_graph.choose_partitioners import ALIGNED, CLASSES, POINTWISE
from penstock.plans.vocabulary import (
    TABLE_HASH_CLASS,
    ChainingStrategy,
    GlobalStreamExchangeMode,
    JobType,
    Kind,
    Partitioner,
    StreamExchangeMode,
)

DEFAULT_GROUP = "default"
BUFFER_TIMEOUT_MILLISECONDS = 100
"""Flink's default of execution.buffer-timeout.interval."""

_NODE = {
    "max_parallelism": -1,
    "slot_sharing_group": DEFAULT_GROUP,
    "co_location_group": None,
    "uid": None,
    "uid_hash": None,
    "buffer_timeout": BUFFER_TIMEOUT_MILLISECONDS,
    "chaining": str(ChainingStrategy.ALWAYS),
    "input_format": False,
    "output_format": False,
    "no_output_until_end_of_input": False,
    "output_only_after_end_of_stream": False,
    "supports_concurrent_execution_attempts": True,
    "managed_memory": {},
    "slot_scope": [],
    "input_requirements": {},
}
_SETTINGS = {
    "chaining_enabled": True,
    "global_exchange_mode": str(GlobalStreamExchangeMode.ALL_EDGES_PIPELINED),
    "dynamic": False,
    "chain_different_max_parallelism": True,
    "all_vertices_in_same_slot_sharing_group": True,
    "job_type": str(JobType.STREAMING),
    "vertex_description_mode": "TREE",
    "vertex_name_include_index_prefix": False,
    "checkpointing": False,
}
_PARTITIONERS = {partitioner.upper(): partitioner for partitioner in Partitioner}


def stream_node(node_id: int, name: str, parallelism: int, kind: str, **known: Any) -> dict[str, Any]:
    """A node with Flink's defaults where nothing is `known`; its edges are listed by stream_graph."""
    of_kind = OPERATOR_KINDS[kind]
    return {
        "id": node_id,
        "name": name,
        "parallelism": parallelism,
        "parallelism_configured": parallelism > 0,
        **_NODE,
        "source": of_kind.source,
        "legacy_source": of_kind.legacy_source,
        "yielding": of_kind.yielding,
        "coordinated": kind == Kind.SOURCE,
        "invokable": of_kind.invokable,
        "operator_factory": of_kind.operator_factory,
        **known,
    }


def stream_edge(source: int, target: int, partitioner: str, **known: Any) -> dict[str, Any]:
    """An edge with a partitioner as Flink prints it; its id is made by stream_graph.

    Any other text than Flink's own partitioners print means a user-defined partitioner, which Flink wraps.
    """
    kind = _PARTITIONERS.get(partitioner, Partitioner.CUSTOM)
    of_table = partitioner.startswith("HASH[")
    return {
        "source": source,
        "target": target,
        "type_number": 0,
        "partitioner": partitioner,
        "partitioner_class": TABLE_HASH_CLASS if of_table else CLASSES[kind],
        "pointwise": kind in POINTWISE,
        "broadcast": kind is Partitioner.BROADCAST,
        "exchange_mode": str(StreamExchangeMode.UNDEFINED),
        "output_tag": None,
        "buffer_timeout": BUFFER_TIMEOUT_MILLISECONDS,
        "unaligned_checkpoints": of_table or kind not in ALIGNED,
        "inter_inputs_keys_correlated": True,
        "intra_input_key_correlated": True,
        "chainable": False,
        **known,
    }


def stream_graph(
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
    sources: Iterable[int],
    sinks: Iterable[int] = (),
    in_order: Sequence[Mapping[str, Any]] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """The `stream_graph` of a topology.

    `edges` are in the order in which their sources have them, `in_order` are the same in the order in which
    their targets have them (default: the same order). Nodes and edges must exist. Edges that have no
    `edge_id` get one.
    """
    names = {node["id"]: node["name"] for node in nodes}
    of_pair: dict[tuple[int, int], int] = {}
    ids: dict[int, str] = {}
    outgoing: dict[int, list[str]] = {i: [] for i in names}
    incoming: dict[int, list[str]] = {i: [] for i in names}
    for edge in edges if in_order is None else in_order:
        pair = edge["source"], edge["target"]
        number = of_pair[pair] = of_pair.get(pair, -1) + 1
        source, target = (f"{names[end]}-{end}" for end in pair)
        generated_id = f"{source}_{target}_{edge['type_number']}_{edge['partitioner']}_{number}"
        ids[id(edge)] = edge.get("edge_id", generated_id)
        incoming[pair[1]].append(ids[id(edge)])
    for edge in edges:
        outgoing[edge["source"]].append(ids[id(edge)])
    return {
        **_SETTINGS,
        **settings,
        "nodes": [
            {**node, "in_edges": incoming[node["id"]], "out_edges": outgoing[node["id"]]} for node in nodes
        ],
        "edges": [{**edge, "edge_id": ids[id(edge)]} for edge in edges],
        "sources": list(sources),
        "sinks": list(sinks),
    }


def sources_as_read(reads: Mapping[int, Sequence[int]]) -> list[int]:
    """The nodes without inputs in the order in which operators, by their ids, first read them.

    In: the inputs of each node. That is when StreamGraphGenerator registers a source.
    """
    sources: dict[int, None] = {}
    for node in sorted(reads):
        sources.update(dict.fromkeys(source for source in reads[node] if not reads[source]))
    return [*sources, *(node for node in sorted(reads) if not reads[node] and node not in sources)]
