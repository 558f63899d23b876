"""Refuses a `stream_graph` that is incomplete or contradicts itself, with every reason."""

import re
from collections import Counter
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.find_cycle import find_cycle
from penstock.plans.topology.operator_rules import (
    BUFFER_TIMEOUT,
    CHAINING,
    GROUP_RESOURCES,
    MANAGED_MEMORY,
    MAX_PARALLELISM,
    RESOURCES,
    SLOT_SCOPE_RULE,
    UID_HASH,
)
from penstock.plans.topology.rules import (
    INT32_MAX,
    Rule,
    Rules,
    boolean,
    explain_keys,
    integer,
    json_type,
    list_of,
    mapping,
    nullable,
    one_of,
    shorten,
    text,
    wrong_type,
)
from penstock.plans.vocabulary import GlobalStreamExchangeMode, JobType, StreamExchangeMode

_HEX_32 = re.compile(r"[0-9a-f]{32}").fullmatch


def _is_data_set(value: str) -> bool:
    return _HEX_32(value) is not None


_ANY_ID = integer(-(2**31), INT32_MAX, "a stream node id")


def _unset_or(low: int, high: int) -> Rule:
    """An integer in [low, high], or -1 for not set."""
    rule = integer(-1, high, f"an integer from {low} to {high}, or -1 (not set)")
    return rule._replace(accepts=lambda value: rule.accepts(value) and value != 0)


def _objects(allowed: str) -> Rule:
    """A list whose objects are checked one by one."""
    return Rule(
        lambda value: type(value) is list,
        lambda location, key, value: [wrong_type(location, key, value, allowed)],
        allowed,
    )


SETTING_RULES: Rules = {
    "sources": list_of(_ANY_ID, "a list of node ids"),
    "sinks": list_of(_ANY_ID, "a list of node ids"),
    "chaining_enabled": boolean(),
    "global_exchange_mode": one_of(GlobalStreamExchangeMode),
    "dynamic": boolean(),
    "chain_different_max_parallelism": boolean(),
    "all_vertices_in_same_slot_sharing_group": boolean(),
    "job_type": one_of(JobType),
    "vertex_description_mode": one_of(("TREE", "CASCADING")),
    "vertex_name_include_index_prefix": boolean(),
    "checkpointing": boolean(),
    "partitioners_compared": boolean(),
    "slot_sharing_group_resources": mapping(
        text(), GROUP_RESOURCES, "an object of group name to the resources of a slot"
    ),
}
"""The settings of a stream graph; nodes and edges aside, and OPTIONAL_SETTINGS, every key is required."""

OPTIONAL_SETTINGS = ("partitioners_compared", "slot_sharing_group_resources")
_CLASS_NAME = text("a binary class name", bool)
_DATA_SET = text("the id of a data set, 32 lower-case hex digits", _is_data_set)

_GRAPH_RULES: Rules = {
    **SETTING_RULES,
    "nodes": _objects("a list of stream nodes"),
    "edges": _objects("a list of stream edges"),
}
_GRAPH_REQUIRED = tuple(k for k in _GRAPH_RULES if k not in OPTIONAL_SETTINGS)
NODE_RULES: Rules = {
    "id": _ANY_ID,
    "name": text(),
    "parallelism": _unset_or(1, INT32_MAX),
    "max_parallelism": _unset_or(1, MAX_PARALLELISM),
    "parallelism_configured": boolean(),
    "slot_sharing_group": text(),
    "co_location_group": nullable(text()),
    "uid": nullable(text()),
    "uid_hash": nullable(UID_HASH),
    "buffer_timeout": BUFFER_TIMEOUT,
    "chaining": nullable(CHAINING),
    "source": boolean(),
    "legacy_source": boolean(),
    "yielding": boolean(),
    "coordinated": boolean(),
    "invokable": text("a simple class name", bool),
    "operator_factory": nullable(text("a simple class name", bool)),
    "input_format": boolean(),
    "output_format": boolean(),
    "no_output_until_end_of_input": boolean(),
    "output_only_after_end_of_stream": boolean(),
    "supports_concurrent_execution_attempts": boolean(),
    "managed_memory": MANAGED_MEMORY,
    "slot_scope": SLOT_SCOPE_RULE,
    "input_requirements": mapping(
        text("an input index", lambda key: key.isascii() and key.isdigit() and len(key) < 9),
        one_of(("SORTED", "PASS_THROUGH")),
        "an object of input index to SORTED or PASS_THROUGH",
    ),
    "min_resources": RESOURCES,
    "preferred_resources": RESOURCES,
    "in_edges": list_of(text(), "a list of edge ids"),
    "out_edges": list_of(text(), "a list of edge ids"),
    "description": text(),
    "keyed": boolean(),
    "operator_class": _CLASS_NAME,
    "function_class": _CLASS_NAME,
    "output_type": text("type information as Flink prints it", bool),
    "consumes_data_set": _DATA_SET,
}
OPTIONAL_OF_NODES = (
    "min_resources",
    "preferred_resources",
    "description",
    "keyed",
    "operator_class",
    "function_class",
    "output_type",
    "consumes_data_set",
)
_NODE_REQUIRED = tuple(k for k in NODE_RULES if k not in OPTIONAL_OF_NODES)


def _ends_in_number(edge_id: str) -> bool:
    last = edge_id.rpartition("_")[2]
    return last.isascii() and last.isdigit() and len(last) < 10


EDGE_RULES: Rules = {
    "edge_id": text("source_target_typeNumber_partitioner_uniqueId", _ends_in_number),
    "source": _ANY_ID,
    "target": _ANY_ID,
    "type_number": integer(0, INT32_MAX),
    "partitioner": text("as Flink prints it: FORWARD, HASH, …", bool),
    "partitioner_class": text("a simple class name", bool),
    "pointwise": boolean(),
    "broadcast": boolean(),
    "exchange_mode": one_of(StreamExchangeMode),
    "output_tag": nullable(text()),
    "buffer_timeout": BUFFER_TIMEOUT,
    "unaligned_checkpoints": boolean(),
    "inter_inputs_keys_correlated": boolean(),
    "intra_input_key_correlated": boolean(),
    "chainable": boolean(),
    "persistent_data_set": _DATA_SET,
    "equal_partitioner": text("the id of an edge"),
}
OPTIONAL_OF_EDGES = ("persistent_data_set", "equal_partitioner")
_EDGE_REQUIRED = tuple(k for k in EDGE_RULES if k not in OPTIONAL_OF_EDGES)


def validate_stream_graph(graph: Any) -> list[TopologyError]:
    """Every error of a topology's `stream_graph`; empty if it is right."""
    if type(graph) is not dict:
        return [wrong_type("topology", "stream_graph", graph, "an object")]
    errors = explain_keys(graph, _GRAPH_RULES, _GRAPH_REQUIRED, "stream_graph")
    nodes, edges = graph.get("nodes"), graph.get("edges")
    if type(nodes) is not list or type(edges) is not list:
        return errors
    if not nodes:
        return [*errors, TopologyError(ErrorKind.EMPTY_TOPOLOGY, "stream_graph", "no nodes", "1 or more", "")]
    errors += _object_errors(nodes, NODE_RULES, _NODE_REQUIRED, "node", "id")
    errors += _object_errors(edges, EDGE_RULES, _EDGE_REQUIRED, "edge", "edge_id")
    return errors or _graph_errors(graph, nodes, edges)


def _object_errors(
    entries: list[Any], rules: Rules, required: tuple[str, ...], what: str, key: str
) -> list[TopologyError]:
    errors: list[TopologyError] = []
    for position, entry in enumerate(entries, 1):
        if type(entry) is dict:
            where = f"{what} {shorten(entry[key])}" if key in entry else f"{what} at position {position}"
            errors += explain_keys(entry, rules, required, where)
        else:
            found = f"{shorten(entry)} ({json_type(entry)})"
            where = f"{what} at position {position}"
            errors.append(TopologyError(ErrorKind.NOT_AN_OBJECT, where, found, "an object", ""))
    return errors


def _graph_errors(graph: dict[str, Any], nodes: list[Any], edges: list[Any]) -> list[TopologyError]:
    """Contradictions between values that are right by themselves."""
    errors = [
        TopologyError(ErrorKind.DUPLICATE_ID, f"node {i}", f"{count} nodes with this id", "1", "")
        for i, count in Counter(node["id"] for node in nodes).items()
        if count > 1
    ]
    errors += [
        TopologyError(ErrorKind.DUPLICATE_EDGE, f"edge {i!r}", f"{count} edges with this edge_id", "1", "")
        for i, count in Counter(edge["edge_id"] for edge in edges).items()
        if count > 1
    ]
    ids = {node["id"] for node in nodes}
    errors += [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"edge {edge['edge_id']!r}",
            f"{end} {edge[end]}, which no node has as its id",
            "the id of a node",
            "",
        )
        for edge in edges
        for end in ("source", "target")
        if edge[end] not in ids
    ]
    errors += [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"stream_graph, {ends}",
            f"{i}, which no node has as its id",
            "the id of a node",
            "",
        )
        for ends in ("sources", "sinks")
        for i in graph[ends]
        if i not in ids
    ]
    if errors:
        return errors
    inputs: dict[int, list[int]] = {i: [] for i in ids}
    for edge in edges:
        inputs[edge["target"]].append(edge["source"])
    errors += _edge_list_errors(nodes, edges)
    if not errors:
        errors += _partitioner_errors(graph, nodes, edges)
    errors += _cache_errors(nodes, inputs)
    errors += _source_errors(graph["sources"], inputs)
    cycle = find_cycle(inputs)
    if cycle:
        shown = " reads ".join(map(str, [*cycle[:20], *(["…"] if len(cycle) > 20 else []), cycle[0]]))
        errors.append(TopologyError(ErrorKind.CYCLE, f"node {cycle[0]}", shown, "an acyclic graph", ""))
    return errors


def _edge_list_errors(nodes: list[Any], edges: list[Any]) -> list[TopologyError]:
    """A node's in_edges (out_edges) are exactly the edges whose target (source) it is, each once."""
    errors = []
    for listing, end in (("in_edges", "target"), ("out_edges", "source")):
        actual: dict[int, Counter[str]] = {node["id"]: Counter() for node in nodes}
        for edge in edges:
            actual[edge[end]][edge["edge_id"]] += 1
        for node in nodes:
            listed = Counter(node[listing])
            differences = [
                f"{listing} {word} {sorted(missing.elements())[:5]}"
                for word, missing in (
                    ("without", actual[node["id"]] - listed),
                    ("with", listed - actual[node["id"]]),
                )
                if missing
            ]
            if differences:
                errors.append(
                    TopologyError(
                        ErrorKind.EDGE_LIST_MISMATCH,
                        f"node {node['id']}",
                        ", ".join(differences),
                        f"each edge whose {end} the node is, once, in order",
                        "",
                    )
                )
    return errors


def _source_errors(sources: list[int], inputs: dict[int, list[int]]) -> list[TopologyError]:
    """Flink walks a graph from its sources: they are exactly the nodes without inputs."""
    without_inputs = {i for i, read in inputs.items() if not read}
    return [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"node {i}",
            "no input edges but not among sources"
            if i in without_inputs
            else "input edges but among sources",
            "sources: the nodes without input edges",
            "",
        )
        for i in sorted(without_inputs ^ set(sources))
    ]


def _partitioner_errors(graph: dict[str, Any], nodes: list[Any], edges: list[Any]) -> list[TopologyError]:
    """`equal_partitioner` is the first edge of a class of equal ones, and out of the same node."""
    compared = graph.get("partitioners_compared", False)
    by_id = {edge["edge_id"]: edge for edge in edges}
    place = {e: i for node in nodes for i, e in enumerate(node["out_edges"])}
    errors = []
    for edge in edges:
        if "equal_partitioner" not in edge:
            continue
        first = by_id.get(edge["equal_partitioner"])
        wrong = ""
        if not compared:
            wrong = "in a graph without partitioners_compared: true"
        elif first is None:
            wrong = "which no edge has as its id"
        elif first["source"] != edge["source"]:
            wrong = f"an edge out of node {first['source']}"
        elif place[first["edge_id"]] >= place[edge["edge_id"]]:
            wrong = "which is not before it among the out_edges of its source"
        elif "equal_partitioner" in first:
            wrong = "which is equal to an earlier one itself"
        if wrong:
            errors.append(
                TopologyError(
                    ErrorKind.EDGE_LIST_MISMATCH if compared else ErrorKind.KEY_NOT_ALLOWED,
                    f"edge {edge['edge_id']!r}",
                    f"equal_partitioner {shorten(edge['equal_partitioner'])}, {wrong}",
                    "the first edge out of the same node that has an equal partitioner",
                    "" if compared else "add partitioners_compared: true to stream_graph",
                )
            )
    return errors


def _cache_errors(nodes: list[Any], inputs: dict[int, list[int]]) -> list[TopologyError]:
    """What reads a cached data set reads no operator."""
    return [
        TopologyError(
            ErrorKind.KEY_NOT_ALLOWED,
            f"node {node['id']}",
            "consumes_data_set on a node with input edges",
            "consumes_data_set on a node without input edges",
            "",
        )
        for node in nodes
        if "consumes_data_set" in node and inputs[node["id"]]
    ]
