"""Import plan JSON (docs/plan-json.md), as written by `export` and `info --json`."""

from collections.abc import Mapping
from typing import Any

from penstock.plans.importing.given_graph import Imported, with_notes
from penstock.plans.importing.node_errors import plan_json_errors
from penstock.plans.importing.stream_graph_form import ASSUMED_OF_VERTICES as OF_VERTICES
from penstock.plans.importing.stream_graph_form import (
    DEFAULT_GROUP,
    Vertex,
    VertexInput,
    memory_weights,
    sources_as_read,
    stream_edge,
    stream_graph,
    stream_node,
    topology_of_vertices,
)
from penstock.plans.plan_json.to_plan_lines import EDGE_KEYS, NODE_KEYS
from penstock.plans.stream_graph.choose_partitioners import CONSECUTIVE_HASH, UNSPECIFIED_FORWARD
from penstock.plans.topology.operator_rules import OPERATOR_SCOPE, SLOT_SCOPE
from penstock.plans.vocabulary import (
    ChainingStrategy,
    GlobalStreamExchangeMode,
    JobType,
    Kind,
    Partitioner,
    ResultPartitionType,
    StreamExchangeMode,
)

FORM = "plan-json"
ASSUMED = {
    "order of a union's inputs": "by node",
    "boundedness of sources that head no chain": "bounded",
    "weights of managed memory": "from the fractions",
}
"""Facts missing from plan JSON with a stream graph, and the assumed values."""

WITHOUT_JOB_GRAPH = {
    "order of a union's inputs": "by node",
    "boundedness of sources": "bounded",
    "managed_memory": "none",
    "job_type": "STREAMING",
}

_LATER_LAYERS = ("job_graph", "execution_graph", "slots")
_KINDS = {
    "SourceOperatorStreamTask": Kind.SOURCE,
    "SourceStreamTask": Kind.LEGACY_SOURCE,
    "TwoInputStreamTask": Kind.TWO_INPUT,
    "MultipleInputStreamTask": Kind.MULTI_INPUT,
}
_GLOBAL_MODES = {
    ResultPartitionType.BLOCKING: GlobalStreamExchangeMode.ALL_EDGES_BLOCKING,
    # Before full: data read by several vertices is full in either mode.
    ResultPartitionType.HYBRID_SELECTIVE: GlobalStreamExchangeMode.ALL_EDGES_HYBRID_SELECTIVE,
    ResultPartitionType.HYBRID_FULL: GlobalStreamExchangeMode.ALL_EDGES_HYBRID_FULL,
    ResultPartitionType.PIPELINED_APPROXIMATE: GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE,
}
_CHAIN_HEAD = 1
_FORWARD = Partitioner.FORWARD.upper()


def is_plan_json(document: Mapping[str, Any]) -> bool:
    """Return whether an object is a line of export, with later layers or a stream graph without
    its settings.
    """
    graph = document.get("stream_graph")
    if any(key in document for key in _LATER_LAYERS):
        return True
    return type(graph) is dict and graph.keys() == {"nodes", "edges"}


def is_refusal(document: Mapping[str, Any]) -> bool:
    """Return whether an object is export's line for a refused topology."""
    return {"name", "error", "message"} <= document.keys() <= {"name", "error", "message", "error_stage"}


def from_plan_json(document: Mapping[str, Any]) -> Imported:
    """Return the topology of a planned line, from its stream graph or, if that is missing, its
    job vertices.
    """
    errors = plan_json_errors(document)
    if errors:
        return errors
    name = document["name"]
    if "stream_graph" not in document:
        return _convert_vertices(name, document["job_graph"]["vertices"])
    nodes, edges = document["stream_graph"]["nodes"], document["stream_graph"]["edges"]
    if "job_graph" not in document:
        graph = _graph(nodes, edges, [])
        return with_notes({"name": name, "stream_graph": graph}, FORM, WITHOUT_JOB_GRAPH)
    graph = _graph(nodes, edges, document["job_graph"]["vertices"])
    return with_notes({"name": name, "stream_graph": graph}, FORM, ASSUMED)


def _graph(nodes: list[Any], edges: list[Any], vertices: list[Any]) -> dict[str, Any]:
    in_order = sorted(edges, key=lambda edge: (edge["target"], edge["type_number"]))
    reads: dict[int, list[int]] = {node["id"]: [] for node in nodes}
    inputs = dict.fromkeys(reads, 0)
    for edge in in_order:
        reads[edge["target"]].append(edge["source"])
        inputs[edge["target"]] = max(inputs[edge["target"]], edge["type_number"])
    operators = {
        operator["node"]: (operator, vertex) for vertex in vertices for operator in vertex["operators"]
    }
    weights = memory_weights(vertices)
    kinds = {
        node["id"]: _kind(node, operators.get(node["id"]), reads[node["id"]], inputs[node["id"]])
        for node in nodes
    }
    by_id = {node["id"]: node for node in nodes}
    would_chain = [edge for edge in edges if not edge["chainable"] and _may_chain(edge, by_id, reads)]
    may_differ = any(edge["chainable"] and _max_parallelism_differs(edge, by_id) for edge in edges)
    unequal = [] if may_differ else [edge for edge in would_chain if _max_parallelism_differs(edge, by_id)]
    separated = {id(edge) for edge in unequal}
    # The other separated operators yield after a legacy source.
    yielding = {edge["target"] for edge in would_chain if id(edge) not in separated}
    settings = _settings(vertices, by_id, operators)
    shipped = _shipped(vertices)
    placed = {
        id(edge): stream_edge(
            **{key: edge[key] for key in EDGE_KEYS},
            buffer_timeout=by_id[edge["source"]]["buffer_timeout"],
            **_forward_class(edge, operators, shipped),
        )
        for edge in edges
    }
    return stream_graph(
        [
            stream_node(
                node["id"],
                node["name"],
                node["parallelism"],
                Kind.ASYNC if node["id"] in yielding else kinds[node["id"]],
                **{key: node[key] for key in NODE_KEYS if key not in ("id", "name", "parallelism")},
                **_memory(operators.get(node["id"]), weights),
                **(_not_configured if _is_reset(node, operators.get(node["id"])) else {}),
            )
            for node in nodes
        ],
        [placed[id(edge)] for edge in edges],
        sources_as_read(reads),
        in_order=[placed[id(edge)] for edge in in_order],
        chaining_enabled=any(edge["chainable"] for edge in edges) or not would_chain,
        chain_different_max_parallelism=not unequal,
        **settings,
    )


_not_configured = {"parallelism_configured": False}


def _shipped(vertices: list[Any]) -> dict[tuple[str, str, int], set[str]]:
    """Map source vertex, target vertex and number of the input to the ship strategies of job edges."""
    strategies: dict[tuple[str, str, int], set[str]] = {}
    for vertex in vertices:
        for read in vertex["inputs"]:
            key = read["source"], vertex["id"], read["type_number"]
            strategies.setdefault(key, set()).add(read["ship_strategy"])
    return strategies


def _forward_class(
    edge: Mapping[str, Any],
    operators: Mapping[int, Any],
    shipped: Mapping[tuple[str, str, int], set[str]],
) -> dict[str, Any]:
    """Return the class of a FORWARD edge of a dynamic graph that the job graph replaces."""
    source, target = operators.get(edge["source"]), operators.get(edge["target"])
    if edge["partitioner"] != _FORWARD or edge["chainable"] or source is None or target is None:
        return {}
    strategies = shipped.get((source[1]["id"], target[1]["id"], edge["type_number"]), {_FORWARD})
    if _FORWARD in strategies:
        return {}
    hashed = Partitioner.HASH.upper() in strategies
    return {"partitioner_class": CONSECUTIVE_HASH if hashed else UNSPECIFIED_FORWARD}


def _kind(node: Mapping[str, Any], operator: Any, reads: list[int], inputs: int) -> str:
    if not reads:
        is_head = operator is not None and operator[0]["chain_index"] == _CHAIN_HEAD
        return str(_KINDS.get(operator[1]["invokable"], Kind.ONE_INPUT) if is_head else Kind.SOURCE)
    if not inputs:
        return str(Kind.ONE_INPUT)
    if operator is not None:
        return str(_KINDS.get(operator[1]["invokable"], Kind.MULTI_INPUT))
    several = inputs > 2 or node["chaining"] == ChainingStrategy.HEAD_WITH_SOURCES
    return str(Kind.MULTI_INPUT if several else Kind.TWO_INPUT)


def _may_chain(edge: Mapping[str, Any], nodes: Mapping[int, Any], reads: Mapping[int, list[int]]) -> bool:
    """Return whether an edge meets the conditions for chaining that plan JSON contains."""
    source, target = nodes[edge["source"]], nodes[edge["target"]]
    return (
        len(reads[edge["target"]]) == 1
        and edge["partitioner"] == _FORWARD
        and edge["exchange_mode"] != StreamExchangeMode.BATCH
        and source["parallelism"] == target["parallelism"]
        and source["slot_sharing_group"] == target["slot_sharing_group"]
        and source["chaining"] not in (None, ChainingStrategy.NEVER)
        and target["chaining"] == ChainingStrategy.ALWAYS
    )


def _max_parallelism_differs(edge: Mapping[str, Any], nodes: Mapping[int, Any]) -> bool:
    source, target = nodes[edge["source"]], nodes[edge["target"]]
    return bool(source["max_parallelism"] != target["max_parallelism"])


def _is_reset(node: Mapping[str, Any], operator: Any) -> bool:
    """Return whether the job graph leaves the parallelism, which the stream graph has, to run time."""
    return operator is not None and operator[1]["parallelism"] < 0 < node["parallelism"]


def _memory(operator: Any, weights: Mapping[int, int]) -> dict[str, Any]:
    if operator is None:
        return {}
    fractions = operator[0].get("managed_memory_fraction", {})
    weight = weights.get(operator[0]["node"])
    return {
        "managed_memory": {str(OPERATOR_SCOPE[0]): weight} if weight else {},
        "slot_scope": [str(case) for case in SLOT_SCOPE if fractions.get(case, 0) > 0],
    }


def _settings(vertices: list[Any], nodes: Mapping[int, Any], operators: Mapping[int, Any]) -> dict[str, Any]:
    """Return the settings of a job that follow from its vertices."""
    types = {output["type"] for vertex in vertices for output in vertex["outputs"]}
    blocking = [kind for kind in _GLOBAL_MODES if kind in types]
    dynamic = any(_is_reset(nodes[i], operators[i]) for i in operators if i in nodes)
    batch = dynamic or any(kind != ResultPartitionType.PIPELINED_APPROXIMATE for kind in blocking)
    numbers = {
        operators[i][1]["slot_sharing_group"]
        for i, node in nodes.items()
        if i in operators and node["slot_sharing_group"] == DEFAULT_GROUP
    }
    prefixed = bool(vertices) and all(vertex["name"].startswith("[vertex-") for vertex in vertices)
    mode = _GLOBAL_MODES[blocking[0]] if blocking else GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
    return {
        "job_type": str(JobType.BATCH if batch else JobType.STREAMING),
        "dynamic": dynamic,
        "global_exchange_mode": str(mode),
        "all_vertices_in_same_slot_sharing_group": len(numbers) <= 1,
        "vertex_name_include_index_prefix": prefixed,
    }


def _convert_vertices(name: str, vertices: list[Any]) -> dict[str, Any]:
    types = {
        (vertex["id"], output["id"]): output["type"].lower()
        for vertex in vertices
        for output in vertex["outputs"]
    }
    batch = any(ResultPartitionType(kind.upper()) in _GLOBAL_MODES for kind in types.values())
    job_vertices = [
        Vertex(
            vertex["id"],
            vertex["name"],
            vertex["parallelism"],
            [
                VertexInput(
                    edge["source"],
                    edge["ship_strategy"],
                    types[edge["source"], edge["data_set"]],
                    edge["type_number"],
                )
                for edge in vertex["inputs"]
            ],
            _known_of_vertex(vertex),
        )
        for vertex in vertices
    ]
    job_type = JobType.BATCH if batch else JobType.STREAMING
    topology = topology_of_vertices(name, str(job_type), job_vertices, tree=True)
    return with_notes(topology, FORM, OF_VERTICES)


def _known_of_vertex(vertex: Mapping[str, Any]) -> dict[str, Any]:
    group, co_location = vertex["slot_sharing_group"], vertex.get("co_location_group")
    kind = _KINDS.get(vertex["invokable"])
    return {
        "max_parallelism": vertex["max_parallelism"],
        "slot_sharing_group": f"group-{group}" if group else DEFAULT_GROUP,
        "co_location_group": None if co_location is None else f"group-{co_location}",
        "invokable": vertex["invokable"],
        "source": kind == Kind.SOURCE,
        "legacy_source": kind == Kind.LEGACY_SOURCE,
        "coordinated": kind == Kind.SOURCE,
    }
