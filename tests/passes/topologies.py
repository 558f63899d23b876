"""The topologies of fixtures, in the form of topology files.

`python -m tests.passes.topologies` writes those that Flink can plan, for ../golden/passes.jsonl.gz.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.plans.layers import PlanOptions
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import PROFILES
from penstock.plans.tables import JOB_SETTINGS, STREAM_EDGES, STREAM_NODES, TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.topology.canonical_texts import JSON_COLUMNS
from penstock.plans.topology.operator_rules import DETAILS
from penstock.plans.vocabulary import Kind, SlotSharingStrategy
from tests.passes.fixtures import RULES, Case, Shown, read_cases
from tests.plans.topology.builders import stream_edge, stream_graph, stream_node

_OF_TOPOLOGY = ("parallelism", "max_parallelism", "chaining")
_SOURCE = {"source": True, "coordinated": True, "invokable": "SourceOperatorStreamTask"}
_OF_CLUSTER = ("slot_sharing_strategy", "network", "task_manager")


def topology_of(case: Case) -> dict[str, Any]:
    """The case's topology: transformations, or a stream graph."""
    settings = {key: value for key, value in case.settings.items() if key not in _OF_CLUSTER}
    nodes, edges = (case.given(f"given_stream_{rows}") for rows in ("nodes", "edges"))
    if nodes is not None and edges is not None:
        return _stream_graph_topology(case.name, settings, nodes, edges)
    transformations = case.given("transformations")
    assert transformations is not None, case.name
    own = {
        key: _typed(settings.pop(key), TOPOLOGIES.field(key).type) for key in _OF_TOPOLOGY if key in settings
    }
    rows = [
        {"name": f"n{row['id']}", **{key: value for key, value in row.items() if value is not None}}
        for row in map(_with_keys_of_json, _objects(transformations, TRANSFORMATIONS))
    ]
    return {"name": case.name, "config": settings, "transformations": rows, **own}


def _with_keys_of_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the keys that its sink_topology and details stand for."""
    given = [json.loads(row.pop(name, None) or "{}") for name in JSON_COLUMNS]
    return row | {key: value for keys in given for key, value in keys.items()}


def for_flink() -> Iterator[dict[str, Any]]:
    """The topologies of all cases that Flink's API takes: not stream graphs, `select` and `details`."""
    for entry in RULES:
        for case in read_cases(entry.produces):
            topology = topology_of(case)
            rows = topology.get("transformations", ())
            if rows and all(row["kind"] != Kind.SELECT and DETAILS.keys().isdisjoint(row) for row in rows):
                yield topology


def choices_of(case: Case) -> PlanOptions:
    """How the case's cluster is configured."""
    chosen: dict[str, Any] = {}
    for key, value in case.settings.items():
        match key:
            case "slot_sharing_strategy":
                chosen[key] = SlotSharingStrategy(value)
            case "network":
                chosen[key] = PROFILES[value]
            case "task_manager":
                chosen[key] = TaskManager(value)
    return PlanOptions(**chosen)


def _stream_graph_topology(name: str, settings: dict[str, str], nodes: Shown, edges: Shown) -> dict[str, Any]:
    made_edges, ids = [], Counter[str]()
    for row in _objects(edges, STREAM_EDGES):
        edge = stream_edge(row.pop("source"), row.pop("target"), **row)
        between = f"n{edge['source']}-{edge['source']}_n{edge['target']}-{edge['target']}"
        kind = f"{between}_{edge['type_number']}_{edge['partitioner']}"
        made_edges.append(edge | {"edge_id": f"{kind}_{ids[kind]}"})
        ids[kind] += 1
    made_nodes = []
    for row in _objects(nodes, STREAM_NODES):
        number = row.pop("id")
        ways = {
            f"{way}_edges": [edge["edge_id"] for edge in made_edges if edge[end] == number]
            for way, end in (("in", "target"), ("out", "source"))
        }
        made_nodes.append(stream_node(number, **{**({} if ways["in_edges"] else _SOURCE), **row, **ways}))
    graph = stream_graph(name)
    graph["stream_graph"] |= {
        "sources": [node["id"] for node in made_nodes if not node["in_edges"]],
        "nodes": made_nodes,
        "edges": made_edges,
        **{key: _typed(value, JOB_SETTINGS.field(key).type) for key, value in settings.items()},
    }
    return graph


def _objects(given: Shown, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    types = [schema.field(column).type for column in given.columns]
    for row in given.rows:
        yield {c: _typed(cell, kind) for c, cell, kind in zip(given.columns, row, types, strict=True)}


def _typed(cell: str, kind: pa.DataType) -> Any:
    """The value that a cell of this type holds."""
    if cell == "-":
        return None
    if pa.types.is_list(kind):
        return [_typed(item, kind.value_type) for item in _items(cell)]
    if pa.types.is_map(kind):
        entries = (item.split(": ") for item in _items(cell))
        return {key: _typed(value, kind.item_type) for key, value in entries}
    if pa.types.is_struct(kind):
        entries = (item.split(": ") for item in _items(cell))
        return {key: _typed(value, kind.field(key).type) for key, value in entries}
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[cell]
    if pa.types.is_integer(kind):
        return int(cell)
    if pa.types.is_floating(kind):
        return float(cell)
    return "" if cell == '""' else cell


def _items(cell: str) -> list[str]:
    inside = re.fullmatch(r"[\[{](.*)[\]}]", cell)
    assert inside, cell
    return inside[1].split(", ") if inside[1] else []


if __name__ == "__main__":
    for made in for_flink():
        print(json.dumps(made, ensure_ascii=False))
