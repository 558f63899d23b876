"""Plans brought to a form in which equal plans are equal objects."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

_NODE_KEYS = (
    "name", "parallelism", "max_parallelism", "slot_sharing_group", "co_location_group", "uid", "uid_hash",
    "buffer_timeout", "chaining",
)  # fmt: skip
_EDGE_KEYS = (
    "target", "type_number", "partitioner", "exchange_mode", "output_tag", "edge_id", "chainable",
)  # fmt: skip
_VERTEX_KEYS = ("name", "parallelism", "max_parallelism", "invokable", "operator_ids")
_OUTPUT_KEYS = ("id", "type", "distribution", "broadcast", "consumers")
_INPUT_KEYS = ("source", "data_set", "distribution", "ship_strategy", "type_number", "forward", "broadcast")


def canonical_plan(plan: Mapping[str, Any], layers: Iterable[str] | None = None) -> dict[str, Any]:
    """Plan JSON (docs/plan-json.md) without what Flink does not define: list orders, numbers of groups.

    `layers`: those to keep (default: all that the plan has). Of a refused topology only the refusal is kept.
    """
    if "error" in plan:
        return {key: plan[key] for key in ("error_stage", "error", "message")}
    canonical: dict[str, Callable[[Any], Any]] = {
        "stream_graph": _stream_graph,
        "job_graph": _job_graph,
        "execution_graph": _execution_graph,
        "slots": sorted,
    }
    kept = canonical if layers is None else set(layers)
    return {layer: of(plan[layer]) for layer, of in canonical.items() if layer in kept and layer in plan}


def _take(row: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: row.get(key) for key in keys}


def _stream_graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    edges: dict[int, list[dict[str, Any]]] = {}
    for edge in graph["edges"]:
        edges.setdefault(edge["source"], []).append(_take(edge, _EDGE_KEYS))
    return {"nodes": {n["id"]: _take(n, _NODE_KEYS) for n in graph["nodes"]}, "out_edges": edges}


def _job_graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    vertices = sorted(graph["vertices"], key=lambda v: str(v["id"]))
    return {
        "vertices": {
            v["id"]: {
                **_take(v, _VERTEX_KEYS),
                "operators": {o["node"]: _operator(o) for o in v["operators"]},
                "outputs": [_take(o, _OUTPUT_KEYS) for o in v["outputs"]],
                "inputs": [_take(i, _INPUT_KEYS) for i in v["inputs"]],
            }
            for v in vertices
        },
        "slot_sharing_groups": _by_first_member(vertices, "slot_sharing_group"),
        "co_location_groups": _by_first_member(vertices, "co_location_group"),
        "topological_order": graph["topological_order"],
    }


def _operator(operator: Mapping[str, Any]) -> dict[str, Any]:
    fractions = {use: round(share, 9) for use, share in operator["managed_memory_fraction"].items()}
    return {
        **_take(operator, ("operator_id", "name", "chain_index")),
        "managed_memory_fraction": fractions,
    }


def _by_first_member(vertices: list[Mapping[str, Any]], key: str) -> dict[str, str]:
    """Vertex id to the id of the first vertex of its group."""
    first: dict[int, str] = {}
    return {v["id"]: first.setdefault(v[key], v["id"]) for v in vertices if v.get(key) is not None}


def _execution_graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    return {v["id"]: _take(v, ("parallelism", "max_parallelism", "inputs")) for v in graph["vertices"]}
