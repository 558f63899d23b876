"""Plans as one digest per topology and layer, so that planners' plans can be compared."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

REFUSAL = "refusal"
Digests = dict[str, dict[str, str]]
"""Topology name to layer (or REFUSAL) to digest."""


def digest_plans(lines: Iterable[str]) -> Digests:
    """The digests of plan JSON lines.

    What Flink does not define does not count: the order of vertices, nodes and slots, the numbers of groups,
    and whether a key without a value is written.
    """
    digests: Digests = {}
    for line in lines:
        plan = orjson.loads(line)
        digests[str(plan["name"])] = {
            layer: _digest(value) for layer, value in comparable_layers(plan).items()
        }
    return digests


def comparable_layers(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The layers of a plan JSON line, or its REFUSAL, with what Flink does not define taken out."""
    if "error" in plan:
        return {REFUSAL: [plan.get(key) for key in ("error_stage", "error", "message")]}
    return {key: _plain(of(plan[key])) for key, of in _LAYERS.items() if key in plan}


def find_differences(by_planner: Mapping[str, Digests]) -> list[dict[str, Any]]:
    """One entry per pair of planners and layer that both give: how many topologies differ, and the first.

    A topology that only one of the two refuses, or has at all, differs at REFUSAL. A layer that one of them
    leaves out of a plan (given stream graphs) is not compared there.
    """
    names = list(by_planner)
    entries = []
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            entries += _compare_pair(first, by_planner[first], second, by_planner[second])
    return entries


def _compare_pair(
    first: str, first_digests: Digests, second: str, second_digests: Digests
) -> list[dict[str, Any]]:
    compared: dict[str, int] = {}
    differing: dict[str, list[str]] = {}
    for name in sorted(set(first_digests) | set(second_digests)):
        ours, theirs = first_digests.get(name, {}), second_digests.get(name, {})
        shared = set(ours) & set(theirs)
        if not (ours and theirs) or (REFUSAL in ours) != (REFUSAL in theirs):
            shared = {REFUSAL}
        for layer in shared:
            compared[layer] = compared.get(layer, 0) + 1
            if ours.get(layer) != theirs.get(layer):
                differing.setdefault(layer, []).append(name)
    return [
        {
            "planners": [first, second],
            "layer": layer,
            "topologies": compared[layer],
            "differing": len(differing.get(layer, ())),
            "first": differing.get(layer, [None])[0],
        }
        for layer in (*_LAYERS, REFUSAL)
        if layer in compared
    ]


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


_CHANGED = {dict, list, float}


def _plain(value: Any) -> Any:
    """A value without nulls, fractions to nine digits. Most are numbers of tasks, which need no call."""
    if isinstance(value, dict):
        return {
            key: _plain(member) if type(member) in _CHANGED else member
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, list):
        return [_plain(member) if type(member) in _CHANGED else member for member in value]
    return round(value, 9) if isinstance(value, float) else value


def _stream_graph(graph: Mapping[str, Any]) -> Any:
    edges: dict[str, list[Any]] = {}
    for edge in graph["edges"]:
        edges.setdefault(str(edge["source"]), []).append(edge)
    return {"nodes": sorted(graph["nodes"], key=lambda node: int(node["id"])), "edges": edges}


def _job_graph(graph: Mapping[str, Any]) -> Any:
    vertices = [dict(vertex) for vertex in _by_id(graph["vertices"])]
    for group in ("slot_sharing_group", "co_location_group"):
        first: dict[Any, str] = {}
        for vertex in vertices:
            if vertex.get(group) is not None:
                vertex[group] = first.setdefault(vertex[group], vertex["id"])
    for vertex in vertices:
        vertex["operators"] = sorted(vertex["operators"], key=lambda operator: int(operator["node"]))
    return {"vertices": vertices, "topological_order": graph["topological_order"]}


def _by_id(vertices: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(vertices, key=lambda vertex: str(vertex["id"]))


_LAYERS: dict[str, Callable[[Any], Any]] = {
    "stream_graph": _stream_graph,
    "job_graph": _job_graph,
    "execution_graph": lambda graph: _by_id(graph["vertices"]),
    "slots": sorted,
}
