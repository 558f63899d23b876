"""Graphs of networkx and igraph, by what they can do: neither is imported here."""

from typing import Any

from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode

_ID = "id"
_ALLOWED = "a graph of networkx or igraph"


def graph_of_library(graph: Any, name: str | None) -> GivenGraph:
    """The graph with its attributes; default of `name`: the graph's own, else "imported".

    Nodes of networkx are named by what they are, as text. Raises InputError for anything else.
    """
    kind = type(graph)  # a DataFrame of Spark has any attribute, as a column
    if hasattr(kind, "vs") and hasattr(kind, "es"):
        own = graph["name"] if "name" in graph.attributes() else None
        return graph_of_igraph(graph, _name(name, own))
    if not all(hasattr(kind, method) for method in ("nodes", "edges", "is_directed")):
        raise InputError(f"graph: found {type(graph).__name__}", f"allowed: {_ALLOWED}")
    keys = {node: str(node) for node in graph.nodes}
    if len(set(keys.values())) < len(keys):  # 1 and "1"
        keys = {node: f"{node}#{number}" for number, node in enumerate(graph.nodes)}
    nodes = [GivenNode(keys[node], attributes) for node, attributes in graph.nodes(data=True)]
    edges = [
        GivenEdge(keys[source], keys[target], attributes)
        for source, target, attributes in graph.edges(data=True)
    ]
    own = graph.graph.get("topology", graph.graph.get("name")) if hasattr(graph, "graph") else None
    return GivenGraph(_name(name, own), nodes, edges, bool(graph.is_directed()))


def _name(name: str | None, own: Any) -> str:
    return name or (own if isinstance(own, str) and own else "imported")


def graph_of_igraph(graph: Any, name: str) -> GivenGraph:
    """An igraph.Graph; vertices are named by `id`, `name`, or their numbers."""
    vertices = [vertex.attributes() for vertex in graph.vs]
    keys = [_key(attributes, number) for number, attributes in enumerate(vertices)]
    if len(set(keys)) < len(keys):
        keys = [f"{key}#{number}" for number, key in enumerate(keys)]
    nodes = [
        GivenNode(key, {attribute: value for attribute, value in attributes.items() if attribute != _ID})
        for key, attributes in zip(keys, vertices, strict=True)
    ]
    edges = [GivenEdge(keys[edge.source], keys[edge.target], edge.attributes()) for edge in graph.es]
    return GivenGraph(name, nodes, edges, graph.is_directed())


def _key(attributes: dict[str, Any], number: int) -> str:
    own_key = attributes.get(_ID, attributes.get("name"))
    return str(number) if own_key is None or own_key == "" else str(own_key)
