"""What is wrong with plan JSON that is imported."""

from collections.abc import Mapping
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.importing.imported import errors_of_known
from penstock.plans.plan_json.columnar.to_plan_lines import EDGE_KEYS, NODE_KEYS
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.rules import INT32_MAX, Rules, integer, text, wrong_type
from penstock.plans.topology.stream_graph_rules import EDGE_RULES, NODE_RULES
from penstock.plans.vocabulary import ResultPartitionType

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
