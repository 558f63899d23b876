"""Checks a GraphML file before igraph reads it, because igraph silently drops parts of it."""

from typing import BinaryIO
from xml.parsers import expat

from penstock.plans.bounds import DEEPEST, MOST_EDGES, MOST_NODES, MOST_VALUES, require_at_most


def require_one_plain_graph(file: BinaryIO) -> None:
    """Raise ValueError with the reason if it is not XML with one graph of nodes and edges.

    Refused are entities, which may grow or name other files, several graphs, graphs inside of nodes,
    hyperedges, an id that two nodes have, and an edge whose end is no node. BoundError for too much of
    anything (see plans.bounds).
    """
    structure = _GraphStructure()
    parser = expat.ParserCreate()
    parser.StartElementHandler = structure.start
    parser.EndElementHandler = structure.end
    parser.EntityDeclHandler = structure.entity
    try:
        parser.ParseFile(file)
    except expat.ExpatError as error:
        reason = f"{expat.errors.messages[error.code]}, line {error.lineno}"
        raise ValueError(f"no XML: {reason}") from None
    except LookupError as error:  # of Python's codecs, for the encoding that the file declares
        raise ValueError(f"no XML: {error}") from None
    if structure.graphs != 1:
        raise ValueError(
            f"it has {structure.graphs} graphs, not one" if structure.graphs else "it has no graph"
        )


class _GraphStructure:
    """Parser state; a handler raises the error that stops the parser."""

    def __init__(self) -> None:
        self.graphs = 0
        self._keys = self._edges = 0
        self._open: list[str] = []
        self._nodes: set[str] = set()
        self._ends: set[str] = set()

    def entity(self, name: str, *_: object) -> None:
        raise ValueError(f"entity {name!r:.60}: entities of a document type are not read")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        require_at_most(len(self._open), DEEPEST, "elements in one another")
        if name == "key":
            self._keys += 1
        if name == "graph":
            if "node" in self._open:
                raise ValueError(f"a graph inside of a node: {attributes.get('id', '')!r:.60}")
            self.graphs += 1
        elif name == "hyperedge":
            raise ValueError("hyperedges, which no operator reads from")
        elif name == "node":
            own = attributes.get("id", "")
            if own in self._nodes:
                raise ValueError(f"two nodes with the id {own!r:.60}")
            self._nodes.add(own)
            require_at_most(len(self._nodes), MOST_NODES, "nodes")
            self._require_few_values()
        elif name == "edge":
            self._ends.update(attributes.get(end, "") for end in ("source", "target"))
            self._edges += 1
            require_at_most(self._edges, MOST_EDGES, "edges")
            self._require_few_values()
        self._open.append(name)

    def _require_few_values(self) -> None:
        """igraph makes a value for each key of each node and edge."""
        values = self._keys * (len(self._nodes) + self._edges)
        require_at_most(values, MOST_VALUES, "values of attributes")

    def end(self, tag: str) -> None:
        self._open.pop()
        if tag.rpartition(":")[2] != "graph":
            return
        if unknown := sorted(self._ends - self._nodes):
            raise ValueError(f"an edge of {unknown[0]!r:.60}, which is no node")
        self._nodes, self._ends = set(), set()
