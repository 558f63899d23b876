"""Find errors in the form of nodes in Flink's JSON, and in the nodes that they read."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.importing.given_graph import errors_of_known
from penstock.plans.plan_json.to_plan_lines import EDGE_KEYS, NODE_KEYS
from penstock.plans.topology.operator_rules import EDGE_RULES, NODE_RULES
from penstock.plans.topology.rules import INT32_MAX, Rules, integer, shorten, text, wrong_type
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.vocabulary import ResultPartitionType


def errors_of_nodes(
    nodes: Sequence[Any], label: str, errors_of: Callable[[Mapping[str, Any], str], list[TopologyError]]
) -> list[TopologyError]:
    """Return the errors of each node by itself. `errors_of` maps an object and its location to its errors."""
    errors: list[TopologyError] = []
    for place, node in enumerate(nodes, 1):
        at = f"{label} at position {place}"
        if type(node) is dict:
            errors += errors_of(node, f"{label} {node['id']!s:.40}" if _has_id(node) else at)
        else:
            errors.append(wrong_type(at, label, node, "an object"))
    return errors


def _has_id(node: Mapping[str, Any]) -> bool:
    return type(node.get("id")) in (int, str)


def errors_of_inputs(
    node: Mapping[str, Any], where: str, key: str, rules: Rules, required: Sequence[str]
) -> list[TopologyError]:
    """Return the errors of a node's parallelism and of the list of its inputs under `key`, a plural."""
    singular, errors = key.removesuffix("s"), []
    if node["parallelism"] == 0:
        errors.append(TopologyError(ErrorKind.OUT_OF_RANGE, where, "parallelism 0", "1 or more, or -1", ""))
    for entry in node.get(key, ()):
        if type(entry) is dict:
            errors += errors_of_known(entry, rules, required, f"{where}, {singular}")
        else:
            errors.append(wrong_type(where, singular, entry, "an object"))
    return errors


def errors_of_links(
    reads: Sequence[tuple[Any, Sequence[Any]]], labels: tuple[str, str], link: str
) -> list[TopologyError]:
    """Return errors for duplicate ids and for unknown inputs. `reads`: each node's id and its inputs' ids.

    `labels`: a node's name in the singular and the plural.
    """
    singular, plural = labels
    counts = Counter(node for node, _ in reads)
    twice = [
        TopologyError(ErrorKind.DUPLICATE_ID, f"{singular} {node}", f"{count} {plural} with this id", "1", "")
        for node, count in counts.items()
        if count > 1
    ]
    dangling = [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"{singular} {node}",
            f"{link} {read}, which no {singular} has as its id",
            f"the id of a {singular}",
            "",
        )
        for node, inputs in reads
        for read in inputs
        if read not in counts
    ]
    return twice + dangling


# Errors in the topology of a graph, in terms of the graph.


_TRANSFORMATION = re.compile(r"transformation ([0-9]+)").fullmatch


def graph_errors(topology: Mapping[str, Any]) -> list[TopologyError]:
    """As validate_topology, with nodes and edges in place of transformations, if the topology
    is a graph's.
    """
    errors = validate_topology(dict(topology))
    rows = topology.get("transformations")
    return [_located(error, rows) for error in errors] if type(rows) is list else errors


def _located(error: TopologyError, rows: list[Any]) -> TopologyError:
    match = _TRANSFORMATION(error.location)
    if match is None or not 0 < int(match[1]) <= len(rows):
        return error
    row, label = rows[int(match[1]) - 1], "node"
    while "name" not in row and row.get("inputs"):
        row, label = rows[row["inputs"][0] - 1], "an edge from"
    # Files of graphs write every value as text.
    hint = "" if error.hint == "write it without quotes" else error.hint
    return replace(error, location=f"{label} {shorten(row.get('name'), 60)}", hint=hint)


# Errors in imported plan JSON.


_NODE: Rules = {key: NODE_RULES[key] for key in NODE_KEYS}
_EDGE: Rules = {key: EDGE_RULES[key] for key in EDGE_KEYS}
_VERTEX: Rules = {
    "id": NODE_RULES["uid_hash"],
    "name": text(),
    "parallelism": NODE_RULES["parallelism"],
    "max_parallelism": NODE_RULES["max_parallelism"],
    "invokable": NODE_RULES["invokable"],
    "slot_sharing_group": integer(0, INT32_MAX),
    "co_location_group": integer(0, INT32_MAX),
}
_TYPES = frozenset(map(str, ResultPartitionType))
_OPERATOR: Rules = {
    "node": EDGE_RULES["source"],
    "chain_index": integer(0, INT32_MAX),
}
_OUTPUT: Rules = {"id": text(), "type": text("a result partition type", lambda kind: kind in _TYPES)}
_INPUT: Rules = {
    "source": text(),
    "data_set": text(),
    "ship_strategy": EDGE_RULES["partitioner"],
    "type_number": EDGE_RULES["type_number"],
}


def plan_json_errors(document: Mapping[str, Any]) -> list[TopologyError]:
    """Return errors that prevent the import of a planned line of plan JSON; later layers are not checked."""
    name = document.get("name")
    if type(name) is not str or not name:
        return [TopologyError(ErrorKind.MISSING_KEY, "plan", "no name", "a string, not empty", "add name")]
    errors: list[TopologyError] = []
    graph, job = document.get("stream_graph"), document.get("job_graph")
    if graph is None and job is None:
        problem = "neither stream_graph nor job_graph"
        return [TopologyError(ErrorKind.MISSING_KEY, "plan", problem, "one of the two", "")]
    if graph is not None:
        errors += _lists(graph, "stream_graph", {"nodes": (_NODE, "node"), "edges": (_EDGE, "edge")})
        if not errors:
            errors += _dangling(graph)
    if job is not None:
        errors += _lists(job, "job_graph", {"vertices": (_VERTEX, "vertex")})
        if not errors:
            errors += [error for vertex in job["vertices"] for error in _vertex_errors(vertex)]
        if not errors and graph is None:
            errors += _dangling_inputs(job["vertices"])
    return errors


def _lists(part: Any, key: str, lists: Mapping[str, tuple[Rules, str]]) -> list[TopologyError]:
    if type(part) is not dict:
        return [wrong_type("plan", key, part, "an object")]
    errors = []
    for name, (rules, label) in lists.items():
        entries = part.get(name)
        if type(entries) is not list:
            errors.append(wrong_type(key, name, entries, "a list of objects"))
            continue
        required = [each for each in rules if each != "co_location_group" or label == "node"]
        for place, entry in enumerate(entries, 1):
            where = f"{label} at position {place}"
            if type(entry) is dict:
                errors += errors_of_known(entry, rules, required, where)
            else:
                errors.append(wrong_type(where, label, entry, "an object"))
    return errors


def _dangling(graph: Mapping[str, Any]) -> list[TopologyError]:
    ids = {node["id"] for node in graph["nodes"]}
    return [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"edge {edge['edge_id']!r:.120}",
            f"{end} {edge[end]}, which no node has as its id",
            "the id of a node",
            "",
        )
        for edge in graph["edges"]
        for end in ("source", "target")
        if edge[end] not in ids
    ]


def _vertex_errors(vertex: Mapping[str, Any]) -> list[TopologyError]:
    where = f"vertex {vertex['id']}"
    errors = []
    for key, rules in (("operators", _OPERATOR), ("outputs", _OUTPUT), ("inputs", _INPUT)):
        entries = vertex.get(key)
        if type(entries) is not list or any(type(entry) is not dict for entry in entries):
            errors.append(wrong_type(where, key, entries, "a list of objects"))
            continue
        for entry in entries:
            errors += errors_of_known(entry, rules, tuple(rules), f"{where}, {key}")
            fractions = entry.get("managed_memory_fraction", {})
            if type(fractions) is not dict or any(
                type(each) not in (int, float) or not 0 <= each <= 1 for each in fractions.values()
            ):
                errors.append(
                    wrong_type(where, "managed_memory_fraction", fractions, "fractions by use case")
                )
    return errors


def _dangling_inputs(vertices: list[Any]) -> list[TopologyError]:
    data_sets = {(vertex["id"], output["id"]) for vertex in vertices for output in vertex["outputs"]}
    return [
        TopologyError(
            ErrorKind.DANGLING_INPUT,
            f"vertex {vertex['id']}",
            f"data set {read['data_set']!r:.80} of {read['source']!r:.80}, which does not exist",
            "a data set among the outputs of that vertex",
            "",
        )
        for vertex in vertices
        for read in vertex["inputs"]
        if (read["source"], read["data_set"]) not in data_sets
    ]
