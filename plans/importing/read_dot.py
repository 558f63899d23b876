"""DOT files, Graphviz's language, as graphs, read by pydot."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from plans.errors import ConfigurationError
from plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from plans.topology.input_errors import unreadable_file

_DEFAULTS = ("node", "edge", "graph")
# fmt: off
_STYLE = frozenset(
    {
        "URL", "arrowhead", "arrowsize", "arrowtail", "color", "constraint", "dir", "fillcolor",
        "fontcolor", "fontname", "fontsize", "headport", "height", "href", "labelangle",
        "labeldistance", "labelloc", "lp", "margin", "minlen", "penwidth", "peripheries", "pos",
        "rank", "rankdir", "shape", "style", "tailport", "target", "tooltip", "width", "xlabel",
    }
)
# fmt: on
"""Attributes that say how a graph looks, which nobody expects in a plan."""


def read_dot(text: str, file: str, name: str) -> list[GivenGraph]:
    """The graphs of a DOT text. A graph without a name has `name`; labels are names of nodes.

    Subgraphs are nodes and edges of the whole; an edge to a subgraph is one to each of its nodes. Raises
    InputError for what is no DOT, ConfigurationError where pydot is not installed.
    """
    said = StringIO()  # pydot prints what is wrong
    with warnings.catch_warnings(), redirect_stdout(said):
        warnings.simplefilter("ignore", DeprecationWarning)  # of pyparsing, to pydot
        try:
            from pydot import dot_parser
        except ImportError as error:
            raise ConfigurationError(
                f"{file}: pydot, which reads DOT, is not installed", "pip install 'penstock[graphs]'"
            ) from error
        try:
            graphs = dot_parser.parse_dot_data(text)
        except RecursionError:
            raise unreadable_file(file, "its subgraphs are nested too deeply") from None
    if not graphs:
        reason = said.getvalue().strip().rpartition("\n")[2]
        raise unreadable_file(file, f"pydot finds no DOT in it ({reason or 'it is empty'})")
    return [
        _graph(graph, name if place == 0 else f"{name}-{place + 1}") for place, graph in enumerate(graphs)
    ]


def _graph(graph: Any, name: str) -> GivenGraph:
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[GivenEdge] = []
    _collect(graph, {}, {}, nodes, edges)
    own = _unquoted(graph.get_name() or "")
    directed = graph.get_type() == "digraph"
    if graph.get_strict():
        edges = list({(edge.source, edge.target): edge for edge in edges}.values())
    named = [GivenNode(key, _as_node(attributes)) for key, attributes in nodes.items()]
    return GivenGraph(own or name, named, edges, directed)


def _collect(
    graph: Any,
    of_nodes: Mapping[str, Any],
    of_edges: Mapping[str, Any],
    nodes: dict[str, dict[str, Any]],
    edges: list[GivenEdge],
) -> None:
    """Add the nodes and edges of a graph and its subgraphs; defaults hold for what is in their braces."""
    of_nodes, of_edges = {**of_nodes}, {**of_edges}
    for default in graph.get_node("node"):
        of_nodes |= default.get_attributes()
    for default in graph.get_node("edge"):
        of_edges |= default.get_attributes()
    for node in graph.get_nodes():
        key = _unquoted(node.get_name())
        if key in _DEFAULTS and node.get_name() == key:
            continue
        nodes.setdefault(key, dict(of_nodes)).update(node.get_attributes())
    for subgraph in graph.get_subgraphs():
        _collect(subgraph, of_nodes, of_edges, nodes, edges)
    for edge in graph.get_edges():
        found = _plain({**of_edges, **edge.get_attributes()})
        for source in _ends(edge.get_source()):
            for target in _ends(edge.get_destination()):
                for end in (source, target):
                    nodes.setdefault(end, dict(of_nodes))
                edges.append(GivenEdge(source, target, found))


def _ends(end: Any) -> Iterator[str]:
    """The keys of the nodes that an end of an edge is: one, or those of a subgraph."""
    if isinstance(end, str):
        yield _unquoted(end, port=True)
        return
    nodes = end["nodes"] if isinstance(end, Mapping) else {node.get_name(): node for node in end.get_nodes()}
    for name in nodes:
        yield _unquoted(name)


def _unquoted(text: str, port: bool = False) -> str:
    """A DOT id as the text that it stands for, without the port of an end of an edge."""
    if text.startswith('"') and (text.endswith('"') or port):
        quoted, _, _ = text[1:].rpartition('"')
        return quoted.replace('\\"', '"').replace("\\\n", "")
    return text.partition(":")[0] if port else text


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes that say something of the graph, not of its looks, without quotes."""
    return {
        _unquoted(key): _unquoted(str(value))
        for key, value in attributes.items()
        if _unquoted(key) not in _STYLE and value is not None
    }


def _as_node(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """With the label as its name, lines joined; one of HTML stays a label, which is no name."""
    found = _plain(attributes)
    if str(found.get("label", "")).startswith("<"):
        return found
    label = found.pop("label", "")
    if "name" not in found and label and label != "\\N":
        lines = [line for line in label.replace("\\l", "\\n").replace("\\r", "\\n").split("\\n") if line]
        found["name"] = " ".join(lines).replace("\\\\", "\\")
    return found
