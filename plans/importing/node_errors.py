"""What is wrong with nodes of JSON that Flink writes: their form, and the nodes that they read."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.importing.imported import errors_of_known
from penstock.plans.plan_json.columnar.to_plan_lines import EDGE_KEYS, NODE_KEYS
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.rules import INT32_MAX, Rules, integer, shorten, text, wrong_type
from penstock.plans.topology.stream_graph_rules import EDGE_RULES, NODE_RULES
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.vocabulary import ResultPartitionType


def errors_of_nodes(
    nodes: Sequence[Any], what: str, errors_of: Callable[[Mapping[str, Any], str], list[TopologyError]]
) -> list[TopologyError]:
    """Errors of each node by itself. `errors_of`: from an object and where it is to its errors."""
    found: list[TopologyError] = []
    for place, node in enumerate(nodes, 1):
        at = f"{what} at position {place}"
        if type(node) is dict:
            found += errors_of(node, f"{what} {node['id']!s:.40}" if _has_id(node) else at)
        else:
            found.append(wrong_type(at, what, node, "an object"))
    return found


def _has_id(node: Mapping[str, Any]) -> bool:
    return type(node.get("id")) in (int, str)


def errors_of_inputs(
    node: Mapping[str, Any], where: str, key: str, rules: Rules, required: Sequence[str]
) -> list[TopologyError]:
    """Errors of a node's parallelism and of the list of its inputs, which `key` names in the plural."""
    one_of_them, found = key.removesuffix("s"), []
    if node["parallelism"] == 0:
        found.append(TopologyError(ErrorKind.OUT_OF_RANGE, where, "parallelism 0", "1 or more, or -1", ""))
    for one in node.get(key, ()):
        if type(one) is dict:
            found += errors_of_known(one, rules, required, f"{where}, {one_of_them}")
        else:
            found.append(wrong_type(where, one_of_them, one, "an object"))
    return found


def errors_of_links(
    reads: Sequence[tuple[Any, Sequence[Any]]], what: tuple[str, str], link: str
) -> list[TopologyError]:
    """Ids that occur twice, and inputs that are no node. `reads`: each node's id and its inputs' ids.

    `what`: a node's name in the singular and the plural.
    """
    one, several = what
    counts = Counter(node for node, _ in reads)
    twice = [
        TopologyError(ErrorKind.DUPLICATE_ID, f"{one} {node}", f"{count} {several} with this id", "1", "")
        for node, count in counts.items()
        if count > 1
    ]
    dangling = [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"{one} {node}",
            f"{link} {read}, which no {one} has as its id",
            f"the id of a {one}",
            "",
        )
        for node, inputs in reads
        for read in inputs
        if read not in counts
    ]
    return twice + dangling


# What is wrong with the topology of a graph, in terms of the graph.


_TRANSFORMATION = re.compile(r"transformation ([0-9]+)").fullmatch


def graph_errors(topology: Mapping[str, Any]) -> list[TopologyError]:
    """As validate_topology, with nodes and edges in place of transformations, if it is one of a graph."""
    errors = validate_topology(dict(topology))
    rows = topology.get("transformations")
    return [_located(error, rows) for error in errors] if type(rows) is list else errors


def _located(error: TopologyError, rows: list[Any]) -> TopologyError:
    found = _TRANSFORMATION(error.location)
    if found is None or not 0 < int(found[1]) <= len(rows):
        return error
    row, what = rows[int(found[1]) - 1], "node"
    while "name" not in row and row.get("inputs"):
        row, what = rows[row["inputs"][0] - 1], "an edge from"
    # A text is how files of graphs write every value.
    hint = "" if error.hint == "write it without quotes" else error.hint
    return replace(error, location=f"{what} {shorten(row.get('name'), 60)}", hint=hint)


# What is wrong with plan JSON that is imported.


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
_OUTPUT: Rules = {"id": text(), "type": text("a result partition type", lambda one: one in _TYPES)}
_INPUT: Rules = {
    "source": text(),
    "data_set": text(),
    "ship_strategy": EDGE_RULES["partitioner"],
    "type_number": EDGE_RULES["type_number"],
}


def plan_json_errors(document: Mapping[str, Any]) -> list[TopologyError]:
    """What of a planned line of plan JSON cannot be imported; later layers are not looked at."""
    name = document.get("name")
    if type(name) is not str or not name:
        return [TopologyError(ErrorKind.MISSING_KEY, "plan", "no name", "a string, not empty", "add name")]
    errors: list[TopologyError] = []
    graph, job = document.get("stream_graph"), document.get("job_graph")
    if graph is None and job is None:
        found = "neither stream_graph nor job_graph"
        return [TopologyError(ErrorKind.MISSING_KEY, "plan", found, "one of the two", "")]
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
    for name, (rules, what) in lists.items():
        found = part.get(name)
        if type(found) is not list:
            errors.append(wrong_type(key, name, found, "a list of objects"))
            continue
        required = [each for each in rules if each != "co_location_group" or what == "node"]
        for place, one in enumerate(found, 1):
            where = f"{what} at position {place}"
            if type(one) is dict:
                errors += errors_of_known(one, rules, required, where)
            else:
                errors.append(wrong_type(where, what, one, "an object"))
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
        found = vertex.get(key)
        if type(found) is not list or any(type(one) is not dict for one in found):
            errors.append(wrong_type(where, key, found, "a list of objects"))
            continue
        for one in found:
            errors += errors_of_known(one, rules, tuple(rules), f"{where}, {key}")
            fractions = one.get("managed_memory_fraction", {})
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
            f"data set {one['data_set']!r:.80} of {one['source']!r:.80}, which is not there",
            "a data set among the outputs of that vertex",
            "",
        )
        for vertex in vertices
        for one in vertex["inputs"]
        if (one["source"], one["data_set"]) not in data_sets
    ]
