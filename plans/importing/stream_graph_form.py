"""Build stream graphs (docs/topology-files.md) from the nodes and edges of imported documents."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from html import unescape
from math import lcm
from typing import Any, NamedTuple, TypeVar

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import TopologyError
from penstock.plans.importing.given_graph import Imported, errors_of_known, ignored_keys, with_notes
from penstock.plans.importing.node_errors import errors_of_inputs, errors_of_links, errors_of_nodes
from penstock.plans.stream_graph.choose_partitioners import ALIGNED, CLASSES, POINTWISE
from penstock.plans.topology.operator_rules import OPERATOR_SCOPE, UID_HASH
from penstock.plans.topology.rules import INT32_MAX, Rule, Rules, integer, one_of, text, wrong_type
from penstock.plans.vocabulary import (
    TABLE_HASH_CLASS,
    ChainingStrategy,
    GlobalStreamExchangeMode,
    JobType,
    Kind,
    Partitioner,
    ResultPartitionType,
    StreamExchangeMode,
)

# An order of edges derived from the order in which Flink creates vertices.


VertexName = TypeVar("VertexName", bound=Hashable)


def children_in_order(
    created: Sequence[VertexName], targets: Mapping[VertexName, Sequence[VertexName]]
) -> dict[VertexName, list[int]]:
    """Return an order of each vertex's targets, as positions in their list.

    A depth-first walk from the sources (in the order in which they are created) that takes targets in that
    order leaves the vertices in the order `created`, if any such order exists. Flink creates a vertex when
    the walk leaves it. Source: StreamingJobGraphGenerator.createChain.
    """
    place = {vertex: number for number, vertex in enumerate(created)}
    finished: list[VertexName] = []  # vertices that the walk has left, but not their parents
    parents: dict[VertexName, VertexName] = {}
    for vertex in created:
        below = set(targets[vertex])
        while finished and finished[-1] in below:
            parents[finished.pop()] = vertex
        finished.append(vertex)
    orders = {}
    for vertex in created:
        children = targets[vertex]
        # First the targets that the walk reaches from here, then those visited before.
        orders[vertex] = sorted(
            range(len(children)),
            key=lambda at: (parents.get(children[at]) != vertex, place[children[at]], at),
        )
    return orders


# Weights of managed memory that give the fractions of a plan.


_LARGEST_DENOMINATOR = 10**6
_DECIMALS = 16
"""Decimals after which fractions in a plan are truncated."""


def memory_weights(vertices: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Map nodes to weights for the operators that claim memory, proportional in each slot sharing group.

    In: vertices of plan JSON. Weights are the smallest integers of that proportion; if these exceed the
    largest weight, millionths.
    """
    groups: dict[int, dict[int, float]] = {}
    for vertex in vertices:
        group_fractions = groups.setdefault(vertex["slot_sharing_group"], {})
        for operator in vertex["operators"]:
            fraction = operator.get("managed_memory_fraction", {}).get(OPERATOR_SCOPE[0], 0)
            if fraction > 0:
                group_fractions[operator["node"]] = fraction
    return {node: weight for group in groups.values() for node, weight in _weights(group).items()}


def _weights(fractions: Mapping[int, float]) -> dict[int, int]:
    half = Fraction(1, 2 * 10**_DECIMALS)  # half of the last decimal, because fractions are rounded down
    ratios = {
        node: (Fraction(value) + half).limit_denominator(_LARGEST_DENOMINATOR)
        for node, value in fractions.items()
    }
    whole = lcm(*(ratio.denominator for ratio in ratios.values())) if ratios else 1
    if whole > INT32_MAX:
        return {node: max(1, round(value * _LARGEST_DENOMINATOR)) for node, value in fractions.items()}
    return {node: max(1, int(ratio * whole)) for node, ratio in ratios.items()}


DEFAULT_GROUP = "default"
_BUFFER_TIMEOUT_MILLISECONDS = 100
"""Flink's default of execution.buffer-timeout.interval."""

_NODE = {
    "max_parallelism": -1,
    "slot_sharing_group": DEFAULT_GROUP,
    "co_location_group": None,
    "uid": None,
    "uid_hash": None,
    "buffer_timeout": _BUFFER_TIMEOUT_MILLISECONDS,
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
    """Return a node with Flink's defaults for keys that are not `known`; stream_graph adds its edges."""
    properties = OPERATOR_KINDS[kind]
    return {
        "id": node_id,
        "name": name,
        "parallelism": parallelism,
        "parallelism_configured": parallelism > 0,
        **_NODE,
        "source": properties.source,
        "legacy_source": properties.legacy_source,
        "yielding": properties.yielding,
        "coordinated": kind == Kind.SOURCE,
        "invokable": properties.invokable,
        "operator_factory": properties.operator_factory,
        **known,
    }


def stream_edge(source: int, target: int, partitioner: str, **known: Any) -> dict[str, Any]:
    """Return an edge with a partitioner in Flink's spelling; stream_graph creates its id.

    Any text other than those of Flink's own partitioners means a user-defined partitioner, which Flink wraps.
    """
    kind = _PARTITIONERS.get(partitioner, Partitioner.CUSTOM)
    is_table_hash = partitioner.startswith("HASH[")
    return {
        "source": source,
        "target": target,
        "type_number": 0,
        "partitioner": partitioner,
        "partitioner_class": TABLE_HASH_CLASS if is_table_hash else CLASSES[kind],
        "pointwise": kind in POINTWISE,
        "broadcast": kind is Partitioner.BROADCAST,
        "exchange_mode": str(StreamExchangeMode.UNDEFINED),
        "output_tag": None,
        "buffer_timeout": _BUFFER_TIMEOUT_MILLISECONDS,
        "unaligned_checkpoints": is_table_hash or kind not in ALIGNED,
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
    """Return the `stream_graph` of a topology.

    `edges` are in the order of their sources' outputs; `in_order` are the same edges in the order of their
    targets' inputs (default: the same order). Nodes and edges must exist. Edges without `edge_id` get one.
    """
    names = {node["id"]: node["name"] for node in nodes}
    pair_counts: dict[tuple[int, int], int] = {}
    ids: dict[int, str] = {}
    outgoing: dict[int, list[str]] = {i: [] for i in names}
    incoming: dict[int, list[str]] = {i: [] for i in names}
    for edge in edges if in_order is None else in_order:
        pair = edge["source"], edge["target"]
        number = pair_counts[pair] = pair_counts.get(pair, -1) + 1
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
    """Return the nodes without inputs in the order in which operators, by their ids, first read them.

    In: the inputs of each node. StreamGraphGenerator registers sources in this order.
    """
    sources: dict[int, None] = {}
    for node in sorted(reads):
        sources.update(dict.fromkeys(source for source in reads[node] if not reads[source]))
    return [*sources, *(node for node in sorted(reads) if not reads[node] and node not in sources)]


# Job vertices and edges between them as a topology: one operator that is not chained per vertex.


ASSUMED_OF_VERTICES = {
    "operators of a vertex": "one, not chained",
    "uid_hash": "the vertex id",
    "managed_memory": "none",
    "intermediate data sets": "one for each edge, if not blocking and of equal partitioners",
    "boundedness of sources": "bounded",
}
"""Facts missing from a job graph's JSON, and the assumed values."""

_MODES = {
    ResultPartitionType.PIPELINED_BOUNDED: StreamExchangeMode.PIPELINED,
    ResultPartitionType.PIPELINED: StreamExchangeMode.PIPELINED,
    ResultPartitionType.PIPELINED_APPROXIMATE: StreamExchangeMode.UNDEFINED,  # by the job's mode
    ResultPartitionType.BLOCKING: StreamExchangeMode.BATCH,
    ResultPartitionType.BLOCKING_PERSISTENT: StreamExchangeMode.BATCH,
    ResultPartitionType.HYBRID_FULL: StreamExchangeMode.HYBRID_FULL,
    ResultPartitionType.HYBRID_SELECTIVE: StreamExchangeMode.HYBRID_SELECTIVE,
}
_EXCHANGES = tuple(kind.lower() for kind in ResultPartitionType)
"""Flink's names of the result partition types in its JSON."""


class VertexInput(NamedTuple):
    """An edge into a vertex."""

    source: str
    ship_strategy: str
    exchange: str
    type_number: int = 0


class Vertex(NamedTuple):
    """A job vertex; `known` are keys of a stream node contained in the document."""

    id: str
    name: str
    parallelism: int
    inputs: Sequence[VertexInput]
    known: Mapping[str, Any]


def topology_of_vertices(name: str, job_type: str, vertices: Sequence[Vertex], tree: bool) -> dict[str, Any]:
    """Return a topology of vertices in the order in which Flink creates them; all inputs are among them.

    `tree`: Flink describes vertices as trees, not on one line.
    """
    inputs = {vertex.id: vertex.inputs for vertex in vertices}
    created = [vertex.id for vertex in vertices]
    outgoing: dict[str, list[tuple[str, int]]] = {vertex_id: [] for vertex_id in created}
    for vertex in vertices:
        for place, read in enumerate(vertex.inputs):
            outgoing[read.source].append((vertex.id, place))
    orders = children_in_order(
        created, {vertex_id: [to for to, _ in outputs] for vertex_id, outputs in outgoing.items()}
    )
    # Flink begins with the source of the smallest number.
    numbers = {vertex_id: number for number, vertex_id in enumerate(created, 1)}
    edges = {}
    for source in created:
        for at in orders[source]:
            target, place = outgoing[source][at]
            read = inputs[target][place]
            mode = _MODES[ResultPartitionType(read.exchange.upper())]
            # Flink refuses a timeout on edges that are written completely before they are read.
            pipelined = mode in (StreamExchangeMode.PIPELINED, StreamExchangeMode.UNDEFINED)
            edges[target, place] = stream_edge(
                numbers[source],
                numbers[target],
                read.ship_strategy,
                type_number=read.type_number,
                exchange_mode=str(mode),
                buffer_timeout=_BUFFER_TIMEOUT_MILLISECONDS if pipelined else -1,
            )
    approximate = any(
        read.exchange == ResultPartitionType.PIPELINED_APPROXIMATE.lower()
        for vertex in vertices
        for read in vertex.inputs
    )
    graph = stream_graph(
        [
            stream_node(
                numbers[vertex.id],
                vertex.name,
                vertex.parallelism,
                Kind.ONE_INPUT if vertex.inputs else Kind.SOURCE,
                **{"uid_hash": vertex.id, **vertex.known},
            )
            for vertex in vertices
        ],
        list(edges.values()),
        [numbers[vertex.id] for vertex in vertices if not vertex.inputs],
        in_order=[edges[key] for vertex in vertices for key in _keys(vertex)],
        chaining_enabled=False,
        dynamic=job_type == JobType.BATCH and any(vertex.parallelism < 0 for vertex in vertices),
        global_exchange_mode=str(
            GlobalStreamExchangeMode.ALL_EDGES_PIPELINED_APPROXIMATE
            if approximate
            else GlobalStreamExchangeMode.ALL_EDGES_PIPELINED
        ),
        job_type=job_type,
        all_vertices_in_same_slot_sharing_group=job_type != JobType.BATCH,
        vertex_description_mode="TREE" if tree else "CASCADING",
    )
    return {"name": name, "stream_graph": graph}


def _keys(vertex: Vertex) -> list[tuple[str, int]]:
    return [(vertex.id, place) for place in range(len(vertex.inputs))]


# Properties of PyFlink's operators, derived from their names in a plan.
#
# Source: pyflink.datastream.data_stream, org.apache.flink.python.util.PythonConfigUtil.


#: Names that PyFlink alone gives: a plan with one of them is PyFlink's.
_OWN = frozenset(
    {
        "_stream_key_by_map_operator",
        "_keyed_stream_values_operator",
        "_partition_custom_map_operator",
        "Extract-Timestamp",
        "KEYED PROCESS",
    }
)
#: Names that PyFlink gives to operators in which no Python runs, and their ends where sinks have names.
_JAVA = frozenset({"Timestamps/Watermarks", "Remove-Timestamp", "Projection", "CacheWrite", "CacheRead"})
_JAVA_ENDS = (": Writer", ": Committer", ": CompactorCoordinator", ": CompactorOperator")
_TWO_INPUTS = frozenset(
    {
        "Co-Process",
        "Co-Map",
        "Co-Flat Map",
        "Keyed Co-Process",
        "Co-Process-Broadcast",
        "Keyed-Co-Process-Broadcast",
    }
)
_COLLECTION = "Source: Collection Source"
_TREE = re.compile(r"^[ |]*(?:[:+]- )?(?:\[\d+\]:)?")
_BETWEEN = ", "  #: separates names of fused operators


def has_pyflink_names(names: Iterable[str]) -> bool:
    """Return whether operators of these names are PyFlink's."""
    return any(part in _OWN or part in _TWO_INPUTS for name in names for part in name.split(_BETWEEN))


def python_kind(name: str, kind: str, inputs: int) -> str:
    """Return the kind of an operator with `inputs` predecessors in a plan of PyFlink; `kind`: its apparent
    kind.
    """
    if name == _COLLECTION:
        return str(Kind.LEGACY_SOURCE)
    first = name.split(_BETWEEN, maxsplit=1)[0]
    if first in _TWO_INPUTS and inputs == 2:  # for larger unions, the input of each edge is unknown
        return str(Kind.TWO_INPUT)
    return kind


def known_of_python(name: str, kind: str, keyed: bool) -> dict[str, Any]:
    """Return keys of a stream node in a plan of PyFlink. `keyed`: whether it reads a keyed stream."""
    if name == _COLLECTION:
        return {
            "chaining": str(ChainingStrategy.HEAD),
            "input_format": True,
            "max_parallelism": 1,
            "operator_factory": "SimpleInputFormatOperatorFactory",
            "keyed": False,
        }
    state = ["STATE_BACKEND"] if keyed else []
    if kind == Kind.SOURCE or name.startswith("Sink: ") or name in _JAVA or name.endswith(_JAVA_ENDS):
        return {"slot_scope": state, "keyed": keyed}
    return {"slot_scope": ["PYTHON", *state], "keyed": keyed, "operator_factory": "SimpleOperatorFactory"}


def _operators_of_vertex(description: str) -> list[str]:
    """Return the names of a vertex's operators, the head first: `description` is a tree, or a chain on one
    line.
    """
    if "\n" in description:
        return [_TREE.sub("", line) for line in description.split("\n") if line.strip()]
    return _TREE.sub("", description).split(" -> ")


def _known_of_python_vertex(operators: Sequence[str], inputs: int, keyed: bool) -> dict[str, Any]:
    """Return keys of a vertex's node in a plan of PyFlink. `keyed`: its head reads keys."""
    head = python_kind(operators[0], str(Kind.ONE_INPUT if inputs else Kind.SOURCE), inputs)
    operator_facts = [
        known_of_python(name, head if not place else str(Kind.ONE_INPUT), keyed and not place)
        for place, name in enumerate(operators)
    ]
    scopes = {scope for known in operator_facts for scope in known.get("slot_scope", ())}
    known: dict[str, Any] = {"slot_scope": sorted(scopes), "keyed": operator_facts[0]["keyed"]}
    if head == Kind.TWO_INPUT:
        known["invokable"] = OPERATOR_KINDS[head].invokable
    return known


# The plan of a job in the format of Flink's REST interface at /jobs/:id/plan, as a topology.
#
# Source: org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator.


FORM = "flink-plan"
ASSUMED = {**ASSUMED_OF_VERTICES, "slot_sharing_group": "default", "max_parallelism": "not set"}
"""Facts missing from a job's plan, and the assumed values."""

NOTHING_KNOWN: Mapping[str, Mapping[str, Any]] = {}

_FLINK_KEYS = ("inputs", "operator_strategy", "optimizer_properties")
_LINE_END = "<br/>"
_LIST = Rule(
    lambda value: type(value) is list,
    lambda location, key, value: [wrong_type(location, key, value, "a list of objects")],
    "a list of objects",
)
_JOB: Rules = {"name": text(), "type": one_of(JobType), "nodes": _LIST}
_PLAN_NODE: Rules = {
    "id": UID_HASH,
    "parallelism": integer(-1, INT32_MAX, "the number of subtasks, or -1"),
    "description": text("the operators of the vertex"),
    "inputs": _LIST,
}
_INPUT: Rules = {
    "id": UID_HASH,
    "num": integer(0, INT32_MAX),
    "exchange": one_of(_EXCHANGES),
    "ship_strategy": text("a partitioner as Flink prints it", bool),
}


def is_flink_plan(document: Mapping[str, Any]) -> bool:
    """Return whether an object is Flink's plan of a job, by the keys of its nodes."""
    nodes = document.get("nodes")
    if type(nodes) is not list:
        return False
    if "jid" in document:
        return True
    first = nodes[0] if nodes and type(nodes[0]) is dict else {}
    return "description" in first and any(
        type(node) is dict and not node.keys().isdisjoint(_FLINK_KEYS) for node in nodes
    )


def from_flink_plan(
    document: Mapping[str, Any], name: str, known: Mapping[str, Mapping[str, Any]] = NOTHING_KNOWN
) -> Imported:
    """Return a topology named `name`, whose operators are the job vertices as given (see ASSUMED).

    `known`: more keys of stream nodes, by the vertex's id.
    """
    errors = errors_of_known(document, _JOB, ("nodes",), "plan")
    if errors:
        return errors
    nodes = document["nodes"]
    errors = errors_of_nodes(nodes, "vertex", _vertex_errors)
    if errors:
        return errors
    reads = [(node["id"], [edge["id"] for edge in node.get("inputs", ())]) for node in nodes]
    errors = errors_of_links(reads, ("vertex", "vertices"), "input")
    if errors:
        return errors
    # Trees end each of their lines; a chain on one line has no line end.
    tree = all(node.get("description", _LINE_END).endswith(_LINE_END) for node in nodes)
    operators = [_operators_of_vertex(_described(node, tree)) for node in nodes]
    vertices = [_vertex(node, tree, known.get(node["id"], {})) for node in nodes]
    if has_pyflink_names(operator for vertex_operators in operators for operator in vertex_operators):
        vertices = list(map(_add_operator_facts, vertices, operators))
    topology = topology_of_vertices(name, document.get("type", str(JobType.STREAMING)), vertices, tree)
    ignored = {
        f"nodes.{key}"
        for node in nodes
        for key in ignored_keys(node, _PLAN_NODE)
        if key != "operator_strategy"
    }
    ignored |= {
        f"inputs.{key}"
        for node in nodes
        for edge in node.get("inputs", ())
        for key in ignored_keys(edge, _INPUT)
    }
    ignored |= ignored_keys(document, (*_JOB, "jid"))
    assumed = ASSUMED if "type" in document else {**ASSUMED, "job_type": "STREAMING"}
    known_keys = set.intersection(*(set(known.get(node["id"], ())) for node in nodes))
    assumed = {key: value for key, value in assumed.items() if key not in known_keys}
    return with_notes(topology, FORM, assumed, ignored)


def _vertex(node: Mapping[str, Any], tree: bool, known: Mapping[str, Any]) -> Vertex:
    """Convert a vertex; its name is Flink's description as text, unless another name is known."""
    inputs = sorted(node.get("inputs", ()), key=lambda edge: edge["num"])
    return Vertex(
        node["id"],
        known.get("name", _described(node, tree)),
        node["parallelism"],
        [VertexInput(edge["id"], edge["ship_strategy"], edge["exchange"]) for edge in inputs],
        {key: value for key, value in known.items() if key != "name"},
    )


def _described(node: Mapping[str, Any], tree: bool) -> str:
    described: str = node.get("description", node["id"])
    return _as_text(described.removesuffix(_LINE_END) if tree else described)


def _add_operator_facts(vertex: Vertex, operators: Sequence[str]) -> Vertex:
    """Add the facts that follow from the names of a vertex's operators."""
    hashed = any(read.ship_strategy == Partitioner.HASH.upper() for read in vertex.inputs)
    keyed = hashed and not operators[0].startswith("Sink: ")
    facts = _known_of_python_vertex(operators, len(vertex.inputs), keyed)
    inputs = vertex.inputs
    if "invokable" in facts:  # an operator with two inputs
        inputs = [read._replace(type_number=number) for number, read in enumerate(inputs, 1)]
    return vertex._replace(inputs=inputs, known={**facts, **vertex.known})


def _as_text(html: str) -> str:
    """Resolve Flink's entities, which are HTML 4's; two of them are other characters in HTML 5, which Python
    reads.
    """
    html = html.replace(_LINE_END, "\n")
    return unescape(html.replace("&lang;", "\u2329").replace("&rang;", "\u232a"))


def _vertex_errors(node: Mapping[str, Any], where: str) -> list[TopologyError]:
    return errors_of_known(node, _PLAN_NODE, ("id", "parallelism"), where) or errors_of_inputs(
        node, where, "inputs", _INPUT, ("id", "num", "exchange", "ship_strategy")
    )
