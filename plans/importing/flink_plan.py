"""The plan of a job as Flink's REST interface gives it at /jobs/:id/plan, as a topology.

Source: org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator.
"""

from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.importing.imported import Imported, errors_of_known, ignored_keys, with_notes
from penstock.plans.importing.job_vertices import ASSUMED as OF_VERTICES
from penstock.plans.importing.job_vertices import EXCHANGES, Vertex, VertexInput, topology_of_vertices
from penstock.plans.importing.node_errors import errors_of_inputs, errors_of_links, errors_of_nodes
from penstock.plans.importing.python_operators import (
    is_of_pyflink,
    known_of_python_vertex,
    operators_of_vertex,
)
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.rules import INT32_MAX, Rule, Rules, integer, one_of, text, wrong_type
from penstock.plans.vocabulary import JobType, Partitioner

FORM = "flink-plan"
ASSUMED = {**OF_VERTICES, "slot_sharing_group": "default", "max_parallelism": "not set"}
"""What a job's plan does not hold, and what is planned instead."""

NOTHING_KNOWN: Mapping[str, Mapping[str, Any]] = {}

_OF_FLINK = ("inputs", "operator_strategy", "optimizer_properties")
_LINE_END = "<br/>"
_LIST = Rule(
    lambda value: type(value) is list,
    lambda location, key, value: [wrong_type(location, key, value, "a list of objects")],
    "a list of objects",
)
_JOB: Rules = {"name": text(), "type": one_of(JobType), "nodes": _LIST}
_NODE: Rules = {
    "id": UID_HASH,
    "parallelism": integer(-1, INT32_MAX, "the number of subtasks, or -1"),
    "description": text("the operators of the vertex"),
    "inputs": _LIST,
}
_INPUT: Rules = {
    "id": UID_HASH,
    "num": integer(0, INT32_MAX),
    "exchange": one_of(EXCHANGES),
    "ship_strategy": text("a partitioner as Flink prints it", bool),
}


def is_flink_plan(document: Mapping[str, Any]) -> bool:
    """Whether an object is one, by the keys of its nodes."""
    nodes = document.get("nodes")
    if type(nodes) is not list:
        return False
    if "jid" in document:
        return True
    first = nodes[0] if nodes and type(nodes[0]) is dict else {}
    return "description" in first and any(
        type(node) is dict and not node.keys().isdisjoint(_OF_FLINK) for node in nodes
    )


def from_flink_plan(
    document: Mapping[str, Any], name: str, known: Mapping[str, Mapping[str, Any]] = NOTHING_KNOWN
) -> Imported:
    """A topology named `name`, whose operators are the job vertices as given (see ASSUMED).

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
    operators = [operators_of_vertex(_described(node, tree)) for node in nodes]
    vertices = [_vertex(node, tree, known.get(node["id"], {})) for node in nodes]
    if is_of_pyflink(operator for of_vertex in operators for operator in of_vertex):
        vertices = list(map(_add_operator_facts, vertices, operators))
    topology = topology_of_vertices(name, document.get("type", str(JobType.STREAMING)), vertices, tree)
    ignored = {
        f"nodes.{key}" for node in nodes for key in ignored_keys(node, _NODE) if key != "operator_strategy"
    }
    ignored |= {
        f"inputs.{key}"
        for node in nodes
        for edge in node.get("inputs", ())
        for key in ignored_keys(edge, _INPUT)
    }
    ignored |= ignored_keys(document, (*_JOB, "jid"))
    assumed = ASSUMED if "type" in document else {**ASSUMED, "job_type": "STREAMING"}
    told = set.intersection(*(set(known.get(node["id"], ())) for node in nodes))
    assumed = {key: value for key, value in assumed.items() if key not in told}
    return with_notes(topology, FORM, assumed, ignored)


def _vertex(node: Mapping[str, Any], tree: bool, known: Mapping[str, Any]) -> Vertex:
    """Its name is Flink's description of it, as text, unless another one is known."""
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
    said = known_of_python_vertex(operators, len(vertex.inputs), keyed)
    inputs = vertex.inputs
    if "invokable" in said:  # of two inputs
        inputs = [read._replace(type_number=number) for number, read in enumerate(inputs, 1)]
    return vertex._replace(inputs=inputs, known={**said, **vertex.known})


def _as_text(html: str) -> str:
    """Flink writes entities of HTML 4; two of them are other characters in HTML 5, which Python reads."""
    html = html.replace(_LINE_END, "\n")
    return unescape(html.replace("&lang;", "\u2329").replace("&rang;", "\u232a"))


def _vertex_errors(node: Mapping[str, Any], where: str) -> list[TopologyError]:
    return errors_of_known(node, _NODE, ("id", "parallelism"), where) or errors_of_inputs(
        node, where, "inputs", _INPUT, ("id", "num", "exchange", "ship_strategy")
    )
