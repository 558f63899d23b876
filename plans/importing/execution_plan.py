"""Import Flink's execution plan, as returned by getExecutionPlan().

Source: org.apache.flink.streaming.api.graph.JSONGenerator.
"""

from collections.abc import Mapping
from typing import Any

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.importing.given_graph import Imported, errors_of_known, ignored_keys, with_notes
from penstock.plans.importing.node_errors import errors_of_inputs, errors_of_links, errors_of_nodes
from penstock.plans.importing.stream_graph_form import (
    has_pyflink_names,
    known_of_python,
    python_kind,
    sources_as_read,
    stream_edge,
    stream_graph,
    stream_node,
)
from penstock.plans.topology.rules import INT32_MAX, Rule, Rules, integer, one_of, text, wrong_type
from penstock.plans.vocabulary import Kind, Partitioner

FORM = "execution-plan"
ASSUMED = {
    "chaining": "ALWAYS",
    "slot_sharing_group": "default",
    "max_parallelism": "not set",
    "uid": "not set",
    "managed_memory": "none",
    "exchange_mode": "UNDEFINED",
    "output_tag": "none",
    "job_type": "STREAMING",
    "boundedness of sources": "bounded",
    "number of inputs": "one, of several predecessors a union",
}
"""Facts missing from an execution plan, and the assumed values: Flink's defaults."""

_SOURCE, _OPERATOR, _SINK = "Data Source", "Operator", "Data Sink"
_HASH = Partitioner.HASH.upper()
_ID = integer(-(2**31), INT32_MAX, "a node id")


def _list(allowed: str) -> Rule:
    return Rule(
        lambda value: type(value) is list,
        lambda location, key, value: [wrong_type(location, key, value, allowed)],
        allowed,
    )


_NODE: Rules = {
    "id": _ID,
    "type": text("the operator's name"),
    "pact": one_of((_SOURCE, _OPERATOR, _SINK)),
    "parallelism": integer(-1, INT32_MAX, "the number of subtasks, or -1"),
    "predecessors": _list("a list of objects"),
}
_PREDECESSOR: Rules = {"id": _ID, "ship_strategy": text("a partitioner as Flink prints it", bool)}
_KNOWN = (*_NODE, "contents")


def is_execution_plan(document: Mapping[str, Any]) -> bool:
    """Return whether an object is an execution plan, by the keys of its nodes."""
    nodes = document.get("nodes")
    return type(nodes) is list and any(type(node) is dict and "pact" in node for node in nodes[:1])


def from_execution_plan(document: Mapping[str, Any], name: str) -> Imported:
    """Return a topology named `name` of the operators and edges as given, with Flink's defaults (see
    ASSUMED).
    """
    nodes = document["nodes"]
    errors = errors_of_nodes(nodes, "node", _node_errors)
    if errors:
        return errors
    reads = {
        node["id"]: [predecessor["id"] for predecessor in node.get("predecessors", ())] for node in nodes
    }
    errors = errors_of_links(
        [(node["id"], reads[node["id"]]) for node in nodes], ("node", "nodes"), "predecessor"
    )
    if errors:
        return errors
    by_id = sorted(nodes, key=lambda node: node["id"])
    is_pyflink = has_pyflink_names(node["type"] for node in nodes)
    kinds = {node["id"]: _kind(node, is_pyflink) for node in by_id}
    edges = [
        stream_edge(
            predecessor["id"],
            node["id"],
            predecessor["ship_strategy"],
            **({"type_number": number} if kinds[node["id"]] == Kind.TWO_INPUT else {}),
        )
        for node in by_id
        for number, predecessor in enumerate(node.get("predecessors", ()), 1)
    ]
    graph = stream_graph(
        [
            stream_node(
                node["id"],
                node["type"],
                node["parallelism"],
                kinds[node["id"]],
                **(_known(node, kinds[node["id"]]) if is_pyflink else {}),
            )
            for node in by_id
        ],
        edges,
        sources_as_read(reads),
        [node["id"] for node in by_id if node["pact"] == _SINK],
    )
    ignored = {f"nodes.{key}" for node in nodes for key in ignored_keys(node, _KNOWN)}
    if any(node.get("contents", node["type"]) != node["type"] for node in nodes):
        ignored.add("nodes.contents")
    return with_notes({"name": name, "stream_graph": graph}, FORM, ASSUMED, ignored)


def _node_errors(node: Mapping[str, Any], where: str) -> list[TopologyError]:
    errors = errors_of_known(node, _NODE, ("id", "type", "pact", "parallelism"), where)
    if errors:
        return errors
    errors = errors_of_inputs(node, where, "predecessors", _PREDECESSOR, tuple(_PREDECESSOR))
    if node["pact"] == _SOURCE and node.get("predecessors"):
        errors.append(
            TopologyError(ErrorKind.WRONG_NUMBER_OF_INPUTS, where, "a source with predecessors", "none", "")
        )
    return errors


def _kind(node: Mapping[str, Any], is_pyflink: bool) -> str:
    """Return the kind from `pact`, or from the name in a plan of PyFlink."""
    kind = str(Kind.SOURCE if node["pact"] == _SOURCE else Kind.ONE_INPUT)
    return python_kind(node["type"], kind, len(node.get("predecessors", ()))) if is_pyflink else kind


def _known(node: Mapping[str, Any], kind: str) -> dict[str, Any]:
    keyed = any(predecessor["ship_strategy"] == _HASH for predecessor in node.get("predecessors", ()))
    return known_of_python(node["type"], kind, keyed and node["pact"] != _SINK)
