"""GraphML files as graphs, read by igraph."""

from typing import Any

from plans.errors import InputError
from plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from plans.topology.input_errors import unreadable_file

_ID = "id"
_NAMES = ("name", "label")


def read_graphml(file: str, name: str) -> GivenGraph:
    """The graph of a file: what its <data> says of nodes and edges are attributes.

    Raises InputError for what is no GraphML. If a file has several graphs, only the first is read.
    """
    import igraph

    try:
        graph = igraph.Graph.Read_GraphML(file)
    except (igraph.InternalError, OSError) as error:
        reason = str(error).partition(" -- ")[0].rpartition(": ")[2]
        raise not_graphml(file, reason) from None
    return graph_of_igraph(graph, name)


def not_graphml(file: str, reason: str) -> InputError:
    """A file that cannot be read as GraphML."""
    return unreadable_file(file, f"it is no GraphML ({reason})")


def graph_of_igraph(graph: Any, name: str) -> GivenGraph:
    """An igraph.Graph; vertices are named by `id`, `name`, or their numbers."""
    vertices = [vertex.attributes() for vertex in graph.vs]
    keys = [_key(found, number) for number, found in enumerate(vertices)]
    if len(set(keys)) < len(keys):
        keys = [f"{key}#{number}" for number, key in enumerate(keys)]
    nodes = [
        GivenNode(key, _with_name({one: value for one, value in found.items() if one != _ID}))
        for key, found in zip(keys, vertices, strict=True)
    ]
    edges = [
        GivenEdge(
            keys[edge.source],
            keys[edge.target],
            {one: value for one, value in edge.attributes().items() if one != _ID},
        )
        for edge in graph.es
    ]
    return GivenGraph(name, nodes, _without_missing(edges), graph.is_directed())


def _key(attributes: dict[str, Any], number: int) -> str:
    found = attributes.get(_ID, attributes.get("name"))
    return str(number) if found is None or found == "" else str(found)


def _with_name(attributes: dict[str, Any]) -> dict[str, Any]:
    """With the first of _NAMES as its name; without what is missing: empty texts, not a number."""
    kept = {key: value for key, value in attributes.items() if value not in ("", None) and value == value}
    for key in _NAMES:
        if key in kept:
            return {**{one: value for one, value in kept.items() if one not in _NAMES}, "name": kept[key]}
    return kept


def _without_missing(edges: list[GivenEdge]) -> list[GivenEdge]:
    return [
        edge._replace(
            attributes={
                key: value
                for key, value in edge.attributes.items()
                if value not in ("", None) and value == value
            }
        )
        for edge in edges
    ]
