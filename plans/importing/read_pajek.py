"""Read Pajek's networks as graphs, also as networkx writes them, with section names in any case.

Source: the reference manual of Pajek (section Network files), and networkx.readwrite.pajek.
"""

import re
from collections.abc import Iterator, Sequence

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import MOST_EDGES, MOST_NODES, require_at_most
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode, attribute_name
from penstock.plans.printable import first_and_count
from penstock.plans.topology.rules import shorten

_WORD = re.compile(r'"([^"]*)"|(\S+)')
_VALUE = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE).fullmatch
_INDEX = re.compile(r"[0-9]{1,18}").fullmatch
_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE).fullmatch
_SHAPES = (
    "ellipse",
    "box",
    "diamond",
    "triangle",
    "cross",
    "empty",
    "circle",
    "square",
    "man",
    "woman",
    "house",
)
_LABEL_OF_EDGE = "l"


def read_pajek(text: str, file: str, name: str) -> GivenGraph:
    """Return the graph of the sections *Vertices, *Arcs, *Arcslist and *Matrix; *Edges have no direction.

    The words after a vertex and its position, or after an arc and its weight, are pairs of an attribute and
    its value. Raises InputError with the line.
    """
    reader = _Reader(file, name)
    for number, line in enumerate(text.split("\n"), 1):
        plain = line.strip()
        if plain.startswith("%"):
            reader.comments.append(plain)
        elif plain:
            reader.add(number, plain)
    return reader.given()


class _Reader:
    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name
        self._section, self._count = "", -1
        self._labels: dict[int, tuple[str, dict[str, str]]] = {}
        self._edges: list[tuple[int, int, dict[str, str]]] = []
        self._directed = True
        self._row = 0
        self._looks: set[str] = set()
        self.comments: list[str] = []

    def add(self, number: int, line: str) -> None:
        words = [quoted or plain for quoted, plain in _WORD.findall(line)]
        if line.startswith("*"):
            self._begin(number, line, words)
            return
        match self._section:
            case "vertices":
                self._vertex(number, line, words)
            case "arcs" | "edges":
                self._directed &= self._section == "arcs"
                self._arc(number, words)
            case "arcslist" | "edgeslist":
                self._directed &= self._section == "arcslist"
                for target in words[1:]:
                    self._edge(number, words[0], target, {})
            case "matrix":
                self._row += 1
                for column, cell in enumerate(words, 1):
                    if _VALUE(cell) is None:
                        raise self._wrong(number, shorten(cell, 40), "a number of the matrix")
                    if float(cell):
                        self._edge(number, str(self._row), str(column), {"weight": cell})
            case _:
                raise self._wrong(number, shorten(line, 60), "*Vertices and a number")

    def _begin(self, number: int, line: str, words: Sequence[str]) -> None:
        section = words[0][1:].lower() if len(words[0]) > 1 else words[1].lower() if len(words) > 1 else ""
        if section == "network":
            self._name = line.partition(" ")[2].strip().strip('"') or self._name
        elif section == "vertices":
            if self._count >= 0 or len(words) < 2 or not _INDEX(words[1]):
                raise self._wrong(number, shorten(line, 60), "*Vertices and a number, once")
            self._count = int(words[1])
            require_at_most(self._count, MOST_NODES, "nodes")
        elif section not in ("arcs", "edges", "arcslist", "edgeslist", "matrix") or self._count < 0:
            allowed = "*Vertices, then *Arcs, *Arcslist or *Matrix"
            raise self._wrong(number, f"the section {shorten(words[0], 40)}", allowed)
        self._section = section

    def _vertex(self, number: int, line: str, words: Sequence[str]) -> None:
        vertex = self._vertex_of(number, words[0])
        if vertex in self._labels:
            raise self._wrong(number, f"vertex {vertex} for the second time", "each vertex once")
        quoted = [bool(match[1]) for match in _WORD.finditer(line)]
        begin = 2
        while begin < len(words) and _NUMBER(words[begin]) and not quoted[begin]:  # its position
            begin += 1
            self._looks.add("place")
        rest = list(words[begin:])
        if rest and rest[0].lower() in _SHAPES:
            rest.pop(0)
            self._looks.add("shape")
        self._labels[vertex] = (words[1] if len(words) > 1 else words[0], self._pairs(number, rest))

    def _arc(self, number: int, words: Sequence[str]) -> None:
        rest = list(words[2:])
        attributes = {"weight": rest.pop(0)} if rest and _NUMBER(rest[0]) else {}
        if len(words) < 2:
            raise self._wrong(number, shorten(" ".join(words), 60), "two vertices")
        if attributes.get("weight") in ("1", "1.0"):  # which networkx writes for edges without a weight
            del attributes["weight"]
        pairs = self._pairs(number, rest)
        if _LABEL_OF_EDGE in pairs:
            pairs["label"] = pairs.pop(_LABEL_OF_EDGE)
        self._edge(number, words[0], words[1], {**attributes, **pairs})

    def _edge(self, number: int, source: str, target: str, attributes: dict[str, str]) -> None:
        ends = self._vertex_of(number, source), self._vertex_of(number, target)
        self._edges.append((*ends, attributes))
        require_at_most(len(self._edges), MOST_EDGES, "edges")

    def _vertex_of(self, number: int, word: str) -> int:
        if not _INDEX(word) or not 0 < int(word) <= self._count:
            raise self._wrong(number, f"vertex {shorten(word, 40)}", f"a number from 1 to {self._count:,}")
        return int(word)

    def _pairs(self, number: int, words: Sequence[str]) -> dict[str, str]:
        if len(words) % 2:
            raise self._wrong(number, shorten(" ".join(words), 60), "pairs of an attribute and its value")
        return dict(zip(words[::2], words[1::2], strict=True))

    def given(self) -> GivenGraph:
        """Return the graph; vertices that are only counted are named by their numbers."""
        vertices = range(1, self._count + 1)
        labels = {vertex: self._labels.get(vertex, (str(vertex), {})) for vertex in vertices}
        unique = len({label for label, _ in labels.values()}) == len(labels)
        keys = {vertex: label if unique else str(vertex) for vertex, (label, _) in labels.items()}
        return GivenGraph(
            self._name,
            [
                GivenNode(keys[vertex], own if unique or "label" in own else {"name": label, **own})
                for vertex, (label, own) in labels.items()
            ],
            [GivenEdge(keys[source], keys[target], own) for source, target, own in self._edges],
            self._directed,
            list(self._notes()),
            lists_nodes=True,
        )

    def _notes(self) -> Iterator[str]:
        if self.comments:
            yield f"comments {first_and_count([shorten(line, 60) for line in self.comments], most=3)}"
        if self._looks:
            yield f"looks ({', '.join(map(attribute_name, sorted(self._looks)))})"

    def _wrong(self, number: int, found: str, allowed: str) -> InputError:
        return InputError(
            f"{self._file}, line {number}: found {found}; allowed: {allowed}", "it is read as Pajek"
        )
