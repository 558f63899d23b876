"""Read GraphML files as graphs, including yEd's, whose names are in its labels."""

from collections.abc import Mapping
from typing import Any
from xml.parsers import expat

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import (
    DEEPEST,
    MOST_EDGES,
    MOST_NODES,
    MOST_VALUES,
    BoundError,
    require_at_most,
)
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode, attribute_name
from penstock.plans.topology.rules import shorten

_LABELS = ("NodeLabel", "EdgeLabel")
"""Elements of yEd that contain the displayed texts."""

_GRAPH_ELEMENTS = ("node", "edge", "data", "desc", "hyperedge", "locator")
_MOST_LISTED = 5


def read_graphml(text: bytes, file: str, name: str) -> GivenGraph:
    """Return the graph of a file; <data> elements become attributes of nodes and edges, labels of yEd
    `label`.

    Raises InputError for anything but GraphML with one graph of nodes and edges: entities, which may expand
    or refer to other files, several graphs, graphs inside nodes, hyperedges, duplicate node ids, and an edge
    whose end is not a node. Raises BoundError if a limit is exceeded (see importing.bounds).
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = reader.characters, reader.entity
    try:
        parser.Parse(text, True)
        return reader.given(name)
    except BoundError:
        raise
    except expat.ExpatError as error:
        reason = f"invalid XML: {expat.errors.messages[error.code]}, line {error.lineno}"
    except LookupError as error:  # raised by Python's codecs for the declared encoding
        reason = f"invalid XML: {error}"
    except ValueError as error:
        reason = str(error)
    raise InputError(f"cannot read {file}: it is not GraphML that can be imported ({reason})")


class _Reader:
    """Parser state; a handler raises the error that stops the parser."""

    def __init__(self) -> None:
        self.graphs = 0
        self._open: list[str] = []
        self._keys: dict[str, tuple[str, str]] = {}  # element type and name
        self._defaults: dict[str, str] = {}
        self._nodes: dict[str, dict[str, str]] = {}
        self._edges: list[tuple[str, str, dict[str, str]]] = []
        self._is_directed: list[bool] = []
        self._default_is_directed = True
        self._graph: dict[str, str] = {}
        self._left_out: dict[str, list[str]] = {}
        self._values = 0
        self._owner: dict[str, str] = {}  # attributes, by key, of the open element
        self._key, self._text = "", ""
        self._labels: list[str] = []

    def entity(self, name: str, *_: object) -> None:
        raise ValueError(f"entity {name!r:.60}: entities of a document type are not read")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        require_at_most(len(self._open), DEEPEST, "elements in one another")
        outer = self._open[-1] if self._open else ""
        if "data" not in self._open:
            self._structure(name, outer, attributes)
        elif name in _LABELS:
            self._text = ""
        self._open.append(name)

    def _structure(self, name: str, outer: str, attributes: dict[str, str]) -> None:
        if outer == "graph" and name not in _GRAPH_ELEMENTS:
            raise ValueError(
                f"an element {name!r:.60} in the graph; {', '.join(_GRAPH_ELEMENTS[:3])} are read"
            )
        match name:
            case "key":
                key = attributes.get("id", "")
                own = attributes.get("attr.name") or attributes.get("yfiles.type") or key
                self._keys[key] = (attributes.get("for", "all"), own)
                self._key = key
            case "default":
                self._text = ""
            case "graph":
                if "node" in self._open:
                    raise ValueError(f"a graph inside a node: {attributes.get('id', '')!r:.60}")
                self.graphs += 1
                if self.graphs > 1:
                    raise ValueError("it has 2 graphs or more, not one")
                self._default_is_directed = attributes.get("edgedefault", "directed") != "undirected"
                self._owner = self._graph
                if attributes.get("id"):
                    self._leave("id of the graph", attributes["id"])
            case "hyperedge":
                raise ValueError("hyperedges, which have no counterpart in a topology")
            case "node":
                self._node(attributes)
            case "edge":
                self._edge(attributes)
            case "data":
                self._key, self._text, self._labels = attributes.get("key", ""), "", []
                if outer in ("graphml", "port", ""):
                    self._leave(
                        f"data of {outer or 'the file'}", self._keys.get(self._key, ("", self._key))[1]
                    )
            case "port":
                self._leave("ports", attributes.get("name", ""))
            case "desc" | "locator":
                self._leave("elements", name)

    def _node(self, attributes: dict[str, str]) -> None:
        own = attributes.get("id", "")
        if not own:
            raise ValueError("a node without an id")
        if own in self._nodes:
            raise ValueError(f"two nodes with the id {own!r:.60}")
        self._owner = self._nodes[own] = {}
        require_at_most(len(self._nodes), MOST_NODES, "nodes")

    def _edge(self, attributes: dict[str, str]) -> None:
        self._owner = {key: attributes[key] for key in ("id",) if key in attributes}
        source, target = (attributes.get(end, "") for end in ("source", "target"))
        if not source or not target:
            raise ValueError(f"an edge without a {'target' if source else 'source'}")
        self._edges.append((source, target, self._owner))
        require_at_most(len(self._edges), MOST_EDGES, "edges")
        given = attributes.get("directed")
        self._is_directed.append(self._default_is_directed if given is None else given == "true")
        for port in ("sourceport", "targetport"):
            if port in attributes:
                self._leave("ports", attributes[port])

    def _leave(self, label: str, item: str) -> None:
        listed = self._left_out.setdefault(label, [])
        if item not in listed[:_MOST_LISTED]:
            listed.append(item)

    def characters(self, text: str) -> None:
        """Add text of the innermost element that may contain text; text of deeper elements is not its own."""
        if self._open and self._open[-1] in ("data", "default", *_LABELS):
            self._text += text

    def end(self, tag: str) -> None:
        name = self._open.pop()
        if "data" in self._open:
            if name in _LABELS:
                self._labels.append(" ".join(self._text.split()))
                self._text = ""
        elif name == "default":
            self._defaults[self._key] = self._text
        elif name == "data":
            self._data(self._open[-1] if self._open else "")
        elif name in ("node", "edge"):
            self._owner = self._graph

    def _data(self, outer: str) -> None:
        if outer not in ("node", "edge", "graph"):
            return
        if self._key not in self._keys:
            raise ValueError(f"data of the key {self._key!r:.60}, which is not declared")
        label = " ".join(filter(None, self._labels))
        if label:
            self._owner.setdefault("\0label", label)
        if not self._labels or self._text.strip():
            self._owner[self._key] = self._text
        self._values += 1
        require_at_most(self._values, MOST_VALUES, "values of attributes")

    def given(self, name: str) -> GivenGraph:
        """Return the graph. Raises ValueError if there is none, and for an edge whose end is not a node."""
        if not self.graphs:
            raise ValueError("it has no graph")
        ends = {end for source, target, _ in self._edges for end in (source, target)}
        if unknown := sorted(ends - self._nodes.keys()):
            raise ValueError(f"an edge of {unknown[0]!r:.60}, which is not a node")
        defaults = {
            kind: {key: self._defaults[key] for key, (element, _) in self._keys.items()
                   if element in (kind, "all") and key in self._defaults}
            for kind in ("node", "edge")
        }  # fmt: skip
        values = len(defaults["node"]) * len(self._nodes) + len(defaults["edge"]) * len(self._edges)
        require_at_most(values, MOST_VALUES, "values of attributes")
        graph = self._named(self._graph)
        own_name = graph.pop("name", None)
        left_out = [f"graph attribute {attribute_name(attribute)}" for attribute in graph]
        for label, items in self._left_out.items():
            more = ", …" if len(items) > _MOST_LISTED else ""
            left_out.append(f"{label} {', '.join(shorten(item, 60) for item in items[:_MOST_LISTED])}{more}")
        return GivenGraph(
            own_name or name,
            [GivenNode(key, self._named({**defaults["node"], **own})) for key, own in self._nodes.items()],
            [
                GivenEdge(source, target, self._named({**defaults["edge"], **own}))
                for source, target, own in self._edges
            ],
            all(self._is_directed) if self._edges else self._default_is_directed,
            left_out,
        )

    def _named(self, attributes: Mapping[str, str]) -> dict[str, Any]:
        """Return attributes by the names of their keys; a label of yEd is `label` if there is no other."""
        named = {
            self._keys[key][1] if key in self._keys else key: value
            for key, value in attributes.items()
            if key != "\0label"
        }
        if "\0label" in attributes:
            named["label" if "label" not in named else "label of yEd"] = attributes["\0label"]
        return named
