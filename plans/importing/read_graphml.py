"""GraphML files as graphs, read by igraph."""

import warnings
from typing import Any

from penstock.plans.bounds import BoundError
from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode, is_missing
from penstock.plans.importing.graphml_structure import require_one_plain_graph

_ID = "id"
_NAMES = ("name", "label")


def read_graphml(path: str, file: str, name: str) -> GivenGraph:
    """The graph of the file at `path`; <data> elements become attributes of nodes and edges.

    `file`: the name for messages. Raises InputError for anything but GraphML, and for parts that igraph would
    drop (see require_one_plain_graph).
    """
    import igraph

    try:
        with open(path, "rb") as opened:
            require_one_plain_graph(opened)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # such as those for attributes of the graph
            graph = igraph.Graph.Read_GraphML(path)
    except BoundError:
        raise
    except ValueError as error:
        raise _not_graphml(file, str(error)) from None
    except (igraph.InternalError, OSError) as error:
        reason = str(error).partition(" -- ")[0].rpartition(": ")[2]
        raise _not_graphml(file, reason) from None
    return graph_of_igraph(graph, name)


def _not_graphml(file: str, reason: str) -> InputError:
    return InputError(f"cannot read {file}: it is no GraphML that can be imported ({reason})")


def graph_of_igraph(graph: Any, name: str) -> GivenGraph:
    """An igraph.Graph; vertices are named by `id`, `name`, or their numbers."""
    vertices = [vertex.attributes() for vertex in graph.vs]
    keys = [_key(attributes, number) for number, attributes in enumerate(vertices)]
    if len(set(keys)) < len(keys):
        keys = [f"{key}#{number}" for number, key in enumerate(keys)]
    nodes = [
        GivenNode(
            key, _with_name({attribute: value for attribute, value in attributes.items() if attribute != _ID})
        )
        for key, attributes in zip(keys, vertices, strict=True)
    ]
    edges = [
        GivenEdge(
            keys[edge.source],
            keys[edge.target],
            {attribute: value for attribute, value in edge.attributes().items() if attribute != _ID},
        )
        for edge in graph.es
    ]
    return GivenGraph(name, nodes, _without_missing(edges), graph.is_directed())


def _key(attributes: dict[str, Any], number: int) -> str:
    own_key = attributes.get(_ID, attributes.get("name"))
    return str(number) if own_key is None or own_key == "" else str(own_key)


def _with_name(attributes: dict[str, Any]) -> dict[str, Any]:
    """With the first of _NAMES as its name; without what is missing: empty texts, not a number."""
    kept = {key: value for key, value in attributes.items() if not is_missing(value)}
    for key in _NAMES:
        if key in kept:
            return {
                **{attribute: value for attribute, value in kept.items() if attribute not in _NAMES},
                "name": kept[key],
            }
    return kept


def _without_missing(edges: list[GivenEdge]) -> list[GivenEdge]:
    return [
        edge._replace(
            attributes={key: value for key, value in edge.attributes.items() if not is_missing(value)}
        )
        for edge in edges
    ]
