"""Files of graphs, by what their names end in."""

import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import accumulate
from typing import Any

from penstock.plans.bounds import (
    DEEPEST,
    MOST_EDGES,
    MOST_WORDS_OF_DOT,
    BoundError,
    bounded_file,
    bounded_seconds,
    bounded_text,
    require_at_most,
)
from penstock.plans.errors import ConfigurationError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from penstock.plans.importing.known_forms import name_of_file
from penstock.plans.importing.read_edge_list import SEPARATORS, read_edge_list
from penstock.plans.importing.read_graphml import read_graphml
from penstock.plans.importing.recognise_content import Content, NoJob, content_of, json_in_text, read_explain
from penstock.plans.importing.task_graphs import read_alibaba, read_dax, read_pegasus, read_stg
from penstock.plans.installation import install_command
from penstock.plans.topology.input_errors import unreadable_file
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

_LOOKED_AT_BYTES = 1 << 16

DOT, GRAPHML, EDGE_LIST = "dot", "graphml", "edge-list"
_FORMS = {
    ".dot": DOT,
    ".gv": DOT,
    ".graphml": GRAPHML,
    ".csv": EDGE_LIST,
    ".tsv": EDGE_LIST,
    ".edges": EDGE_LIST,
    ".edgelist": EDGE_LIST,
    ".txt": EDGE_LIST,
}
"""What a graph's file ends in, before the ending of a packed one, and its form."""


def form_of_graph(file: str) -> str | None:
    """The form of a file by its name, one of those above; None for any other."""
    return _FORMS.get(_ending(file))


def begins_as_json(file: str) -> bool:
    """Whether the content of a local file begins like JSON, regardless of its name."""
    beginning = next(iter(texts_of_file(file)), b"")[:_LOOKED_AT_BYTES]
    return beginning.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"


def recognised(file: str) -> Content | NoJob | None:
    """The kind of a local file by its first bytes, regardless of its name; None if they do not tell."""
    return content_of(next(iter(texts_of_file(file)), b"")[:_LOOKED_AT_BYTES])


def read_recognised(file: str, content: Content) -> Iterator[GivenGraph | dict[str, Any]]:
    """Graphs of a local file, or Flink's JSON of a plan in it. Raises InputError, as read_graphs."""
    with bounded_file(file), bounded_seconds():
        graphs = _read_recognised(file, content, name_of_file(file, 0))
    yield from graphs


def _read_recognised(file: str, content: Content, name: str) -> Sequence[GivenGraph | dict[str, Any]]:
    if content is Content.GRAPHML:
        return _read(file, GRAPHML, name)
    whole = bounded_text(texts_of_file(file))
    if content is Content.DAX:
        return [read_dax(whole, file, name)]
    try:
        text = whole.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise unreadable_file(file, f"byte {error.start:,} is not UTF-8") from None
    match content:
        case Content.STG:
            return [read_stg(text, file, name)]
        case Content.PEGASUS:
            return [read_pegasus(text, file, name)]
        case Content.ALIBABA:
            return read_alibaba(text, file)
        case Content.PLAN_NODES:
            return [{"name": name, "nodes": _array(text, file)}]
    document = json_in_text(text)
    if document is not None:
        return [{"name": name, **document}]
    if content is Content.FLINK_INFO:
        raise unreadable_file(file, "what flink info prints, without the JSON of a plan")
    return [read_explain(text, file, name)]


def _array(text: str, file: str) -> list[Any]:
    try:
        nodes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable_file(file, f"an array of a plan's nodes: {error}") from None
    return list(nodes)


def read_graphs(file: str, form: str) -> Iterator[GivenGraph]:
    """The graphs of a local file, which are named by the file where they have no name.

    Raises InputError, also for a file that stands for too much (see plans.bounds), and ConfigurationError
    if a library is missing.
    """
    with bounded_file(file), bounded_seconds():
        graphs = _read(file, form, name_of_file(file, 0))
    yield from graphs


def _read(file: str, form: str, name: str) -> list[GivenGraph]:
    whole = bounded_text(texts_of_file(file))
    if form == GRAPHML:
        with tempfile.NamedTemporaryFile(suffix=".graphml") as unpacked:
            unpacked.write(whole)
            unpacked.flush()
            return [read_graphml(unpacked.name, file, name)]
    try:
        text = whole.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable_file(file, f"byte {error.start:,} is not UTF-8") from None
    if form == DOT:
        return read_dot(text, file, name)
    return [read_edge_list(text, SEPARATORS.get(_ending(file)), file, name)]


def _ending(file: str) -> str:
    stem, ending = os.path.splitext(file)
    if ending.lower() in CODECS:
        ending = os.path.splitext(stem)[1]
    return ending.lower()


# DOT files, Graphviz's language, as graphs, read by pydot.


_DEFAULTS = ("node", "edge", "graph")
_BY_NAME = "subgraph"
"""What pydot takes an end of an edge for that names a subgraph without its braces."""
_WORD = re.compile(r"\w+")
_DEEP = 4
"""Braces in braces from which pydot, which reads each twice, needs to keep what it has read."""
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
    InputError for what is no DOT, BoundError for what stands for too much, and ConfigurationError if pydot
    is not installed.
    """
    require_at_most(sum(1 for _ in _WORD.finditer(text)), MOST_WORDS_OF_DOT, "words of DOT")
    if _depth(text) > DEEPEST:
        raise BoundError(f"its subgraphs are nested too deeply, beyond {DEEPEST} braces")
    said = StringIO()  # pydot prints errors
    with warnings.catch_warnings(), redirect_stdout(said):
        warnings.simplefilter("ignore", DeprecationWarning)  # pyparsing's, passed to pydot
        try:
            from pydot import dot_parser
            from pyparsing import ParserElement
        except ImportError as error:
            raise ConfigurationError(
                f"{file}: pydot, which reads DOT, is not installed", install_command("graphs")
            ) from error
        if _depth(text) > _DEEP:
            ParserElement.enable_packrat()
        try:
            graphs = dot_parser.parse_dot_data(text)
        except RecursionError:
            raise unreadable_file(file, "its subgraphs are nested too deeply") from None
    if not graphs:
        reason = said.getvalue().strip().rpartition("\n")[2]
        raise unreadable_file(file, f"pydot finds no DOT in it ({reason or 'it is empty'})")
    try:
        return [
            _graph(graph, name if place == 0 else f"{name}-{place + 1}") for place, graph in enumerate(graphs)
        ]
    except BoundError:
        raise
    except ValueError as error:
        raise unreadable_file(file, str(error)) from None


def _depth(text: str) -> int:
    """The nesting depth of braces, roughly: braces in names count, too."""
    return max(accumulate(1 if sign == "{" else -1 for sign in text if sign in "{}"), default=0)


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
    node_defaults: Mapping[str, Any],
    edge_defaults: Mapping[str, Any],
    nodes: dict[str, dict[str, Any]],
    edges: list[GivenEdge],
) -> dict[str, None]:
    """Add the nodes and edges of a graph and its subgraphs, and give the keys of its nodes, in order.

    As in Graphviz, a default holds for what first occurs after it, within its braces.
    """
    node_defaults, edge_defaults = {**node_defaults}, {**edge_defaults}
    own: dict[str, None] = {}
    last: tuple[Any, dict[str, None]] = (None, {})

    def read_end(end: Any) -> dict[str, None]:
        """The keys of the nodes that an end of an edge is: one, or those of a subgraph."""
        nonlocal last
        if isinstance(end, str):
            if end == _BY_NAME:
                raise ValueError("an edge to a subgraph by its name alone; write its nodes in braces")
            return {_unquoted(end, port=True): None}
        if end != last[0]:  # both edges of a -> {b c} -> d have the same subgraph
            subgraph = type(graph)(obj_dict=end) if isinstance(end, Mapping) else end
            last = (end, _collect(subgraph, node_defaults, edge_defaults, nodes, edges))
        return last[1]

    def add(keys: Mapping[str, None]) -> None:
        for key in keys:
            nodes.setdefault(key, dict(node_defaults))
        own.update(keys)

    statements = [*graph.get_nodes(), *graph.get_edges(), *graph.get_subgraphs()]
    for statement in sorted(statements, key=lambda element: int(element.get_sequence())):
        attributes = statement.get_attributes()
        if hasattr(statement, "get_subgraphs"):
            own.update(_collect(statement, node_defaults, edge_defaults, nodes, edges))
        elif hasattr(statement, "get_source"):
            add(sources := read_end(statement.get_source()))
            add(targets := read_end(statement.get_destination()))
            own_attributes = _plain({**edge_defaults, **attributes})
            require_at_most(len(edges) + len(sources) * len(targets), MOST_EDGES, "edges")
            edges += [GivenEdge(source, target, own_attributes) for source in sources for target in targets]
        elif (name := statement.get_name()) in _DEFAULTS:
            node_defaults |= attributes if name == "node" else {}
            edge_defaults |= attributes if name == "edge" else {}
        else:
            key = _unquoted(name)
            add({key: None})
            nodes[key].update(attributes)
    return own


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
    """Attributes of a node, with the label's joined lines as its name; an HTML label stays a label."""
    node_attributes = _plain(attributes)
    if str(node_attributes.get("label", "")).startswith("<"):
        return node_attributes
    label = node_attributes.pop("label", "")
    if "name" not in node_attributes and label and label != "\\N":
        lines = [line for line in label.replace("\\l", "\\n").replace("\\r", "\\n").split("\\n") if line]
        node_attributes["name"] = " ".join(lines).replace("\\\\", "\\")
    return node_attributes
