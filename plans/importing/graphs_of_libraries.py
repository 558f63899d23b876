"""Graphs of networkx and igraph, by what they can do: neither is imported here."""

from typing import Any

from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from penstock.plans.importing.read_graphml import graph_of_igraph

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
