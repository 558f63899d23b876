"""Read DOT, Graphviz's language, as graphs.

Source: the grammar of Graphviz (The DOT Language), and its scanner and parser (lib/cgraph/scan.l, grammar.y).
"""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from html.entities import html5
from typing import Any, NamedTuple

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import MOST_EDGES, MOST_NODES, MOST_VALUES, require_at_most
from penstock.plans.importing.given_graph import (
    DRAWN_PARALLELISM,
    GivenEdge,
    GivenGraph,
    GivenNode,
    attribute_name,
)
from penstock.plans.printable import first_and_count, unprintable
from penstock.plans.topology.rules import shorten

# Tokens.

_ID, _QUOTED, _HTML, _KEYWORD, _SIGN, _END = (
    "a name",
    "a quoted name",
    "HTML",
    "a keyword",
    "a sign",
    "the end",
)

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f\v\ufeff]+|//[^\n\r]*|/\*.*?\*/|(?<![^\r\n])\#[^\n\r]*)
  | (?P<name>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*)
  | (?P<number>-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?P<more>[A-Za-z0-9_.\x80-\U0010ffff]?))
  | (?P<quoted>"(?:[^"\\]|\\.)*")
  | (?P<html><)
  | (?P<sign>->|--|[{}\[\];,:=+])
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"<!--|[<>]")
_KEYWORDS = frozenset(("strict", "graph", "digraph", "node", "edge", "subgraph"))
_ENTITY = re.compile(r"&(#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6})|[A-Za-z][A-Za-z0-9]{0,40});")
_FIELDS_OF_RECORD = re.compile(r"(\\.)|<[^<>]*>|[|{}]", re.DOTALL)
_CONTINUED = re.compile(r'\\(?:\r\n|\n|\r)|\\(")')


class _Html(str):
    """A value in angle brackets, which are part of it."""

    __slots__ = ()


class _Token(NamedTuple):
    kind: str
    text: str  #: lower case for a keyword; unquoted for a name
    place: int


def _tokens(text: str, file: str) -> Iterator[_Token]:
    """Yield the tokens of a text, and one for its end."""
    place, end = 0, len(text)
    match_at = _TOKEN.match
    while place < end:
        match = match_at(text, place)
        if match is None:
            raise _wrong(file, text, place, _unreadable(text, place))
        group = match.lastgroup
        token = match[0]
        if group == "name":
            lower = token.lower()
            yield _Token(_KEYWORD, lower, place) if lower in _KEYWORDS else _Token(_ID, token, place)
        elif group == "sign":
            yield _Token(_SIGN, token, place)
        elif group == "quoted":
            plain = token[1:-1]
            if "\\" in plain:
                plain = _CONTINUED.sub(lambda escape: escape[1] or "", plain)
            yield _Token(_QUOTED, plain, place)
        elif group == "html":
            html_end = _end_of_html(text, place)
            if html_end is None:
                raise _wrong(file, text, place, "an HTML string that does not end")
            yield _Token(_HTML, _Html(text[place:html_end]), place)
            place = html_end
            continue
        elif group != "space":
            if match["more"]:
                raise _wrong(
                    file, text, place, f"{shorten(token, 40)}, a number followed by a name or number"
                )
            yield _Token(_ID, token, place)
        place = match.end()
    yield _Token(_END, "", end)


def _end_of_html(text: str, place: int) -> int | None:
    """Return the end of the HTML string that begins at a position; None if it is unterminated."""
    depth = 0
    while match := _BRACKET.search(text, place):
        place = match.end()
        if match[0] == "<!--" and depth:
            place = text.find("-->", place) + 3
            if place < 3:
                return None
            continue
        depth += -1 if match[0] == ">" else 1
        if not depth:
            return place
    return None


def _unreadable(text: str, place: int) -> str:
    if text[place] == '"':
        return "a quoted name that does not end"
    if text.startswith("/*", place):
        return "a comment that does not end"
    return f"{text[place]!r}, which is not valid in DOT outside of quotes"


def _wrong(file: str, text: str, place: int, token: str, allowed: str = "") -> InputError:
    line = text.count("\n", 0, place) + 1
    column = place - (text.rfind("\n", 0, place) + 1) + 1
    return InputError(
        f"{file}, line {line:,}, column {column:,}: found {token}"
        + (f"; allowed: {allowed}" if allowed else ""),
        "it is read as DOT, the language of Graphviz",
    )


# Graphs. Attributes are stored as written, with the defaults in force where a node or edge first occurs.

# fmt: off
_LOOKS = frozenset(
    {
        "URL", "area", "arrowhead", "arrowsize", "arrowtail", "bgcolor", "center", "charset", "class",
        "color", "colorscheme", "compound", "concentrate", "constraint", "decorate", "dir", "dpi", "edgeURL",
        "edgehref", "fillcolor", "fixedsize", "fontcolor", "fontname", "fontsize", "forcelabels",
        "gradientangle", "headURL", "headclip", "headport", "height", "href", "image",
        "imagescale", "labelangle", "labeldistance", "labelfloat", "labelfontcolor", "labelfontname",
        "labelfontsize", "labeljust", "labelloc", "layout", "lhead", "lp", "ltail", "margin", "minlen",
        "newrank", "nodesep", "nojustify", "ordering", "orientation", "outputorder", "overlap", "pad", "page",
        "penwidth", "peripheries", "pos", "rank", "rankdir", "ranksep", "ratio", "regular", "samehead",
        "sametail", "sep", "shape", "sides", "size", "skew", "splines", "style", "stylesheet", "tailURL",
        "tailclip", "tailport", "target", "tooltip", "width",
    }
)
# fmt: on
"""Attributes of a graph's appearance, which are listed together."""

_MOST_LISTED = 5


class _Edge(NamedTuple):
    source: int
    target: int
    attributes: dict[str, str]


class _Scope:
    """A graph or subgraph that is being read."""

    __slots__ = ("edge_defaults", "members", "name", "node_defaults", "statement")

    def __init__(self, name: str | None, outer: "_Scope | None") -> None:
        self.name = name
        self.node_defaults: dict[str, str] = {} if outer is None else dict(outer.node_defaults)
        self.edge_defaults: dict[str, str] = {} if outer is None else dict(outer.edge_defaults)
        self.members: dict[int, None] = {}
        self.statement = _Statement()


class _Statement:
    """A statement of nodes and subgraphs, and the edges from each of them to the next."""

    __slots__ = ("ends", "is_edge", "is_node")

    def __init__(self) -> None:
        self.ends: list[list[int]] = []
        self.is_edge = self.is_node = False


class _Reader:
    """Reads one graph; subgraphs are on a stack, so that they may be nested to any depth."""

    def __init__(self, tokens: Iterator[_Token], text: str, file: str) -> None:
        self._tokens, self._text, self._file = tokens, text, file
        self._token = next(tokens)
        self._start("")

    def _start(self, name: str) -> None:
        self.name = name
        self.strict = self.directed = False
        self._numbers: dict[str, int] = {}
        self._keys: list[str] = []
        self._nodes: list[dict[str, str]] = []
        self._edges: list[_Edge] = []
        self._between: dict[tuple[Any, ...], _Edge] = {}
        self._named: dict[str, dict[int, None]] = {}
        self._graph_attributes: dict[str, None] = {}
        self._ports: dict[str, None] = {}
        self._values = self._merged = 0

    # Tokens

    def _next(self) -> _Token:
        token = self._token
        if token.kind is not _END:
            self._token = next(self._tokens)
        return token

    def _is(self, sign: str) -> bool:
        return self._token.kind is _SIGN and self._token.text == sign

    def _is_keyword(self, *words: str) -> bool:
        return self._token.kind is _KEYWORD and self._token.text in words

    def _take(self, sign: str) -> bool:
        if not self._is(sign):
            return False
        self._next()
        return True

    def _require(self, sign: str, allowed: str) -> None:
        if not self._take(sign):
            raise self._unexpected(allowed)

    def _unexpected(self, allowed: str) -> InputError:
        token = self._token
        description = "the end of the file" if token.kind is _END else shorten(token.text, 40)
        if token.kind is _KEYWORD:
            description = f"the keyword {token.text}"
        return _wrong(self._file, self._text, token.place, description, allowed)

    def _is_id(self) -> bool:
        return self._token.kind in (_ID, _QUOTED, _HTML)

    def _id(self, allowed: str) -> str:
        if not self._is_id():
            raise self._unexpected(allowed)
        token = self._next()
        if token.kind is not _QUOTED or not self._is("+"):
            return token.text
        parts = [token.text]
        while self._take("+"):
            if self._token.kind is not _QUOTED:
                raise self._unexpected("a quoted name after +")
            parts.append(self._next().text)
        return "".join(parts)

    # Graphs

    def graphs(self) -> Iterator["_Reader"]:
        """Yield the reader itself once per graph of the text, whose content it then has."""
        if self._token.kind is _END:
            raise self._unexpected("digraph or graph")
        while self._token.kind is not _END:
            self._start("")
            if self._is_keyword("strict"):
                self._next()
                self.strict = True
            if not self._is_keyword("graph", "digraph"):
                raise self._unexpected("digraph or graph")
            self.directed = self._next().text == "digraph"
            if self._is_id():
                self.name = self._id("")
            self._require("{", "{")
            self._body()
            while self._take(";"):
                pass
            yield self

    def _body(self) -> None:
        """Read all statements up to the brace that closes the graph."""
        scopes = [_Scope(None, None)]
        while scopes:
            scope = scopes[-1]
            if self._take("}"):
                self._end_statement(scope)
                scopes.pop()
                if scope.name is not None:
                    self._named[scope.name] = scope.members
                if scopes:
                    self._merge(scopes[-1], scope.members)
                    scopes[-1].statement.ends.append(list(scope.members))
                    self._after_end(scopes[-1])
                continue
            name: str | None = None
            if self._is_keyword("subgraph"):
                self._next()
                name = self._id("") if self._is_id() else None
                if name is not None and not self._is("{"):  # referenced by its name alone
                    if name not in self._named:
                        raise self._unexpected(f"{{, as no subgraph before is called {shorten(name, 40)}")
                    self._merge(scope, self._named[name])
                    scope.statement.ends.append(list(self._named[name]))
                    self._after_end(scope)
                    continue
                if not self._is("{"):
                    raise self._unexpected("{")
            if self._take("{"):
                scopes.append(_Scope(name, scope))
                if name is not None and name in self._named:
                    scopes[-1].members.update(self._named[name])
            elif self._is_keyword("node", "edge", "graph"):
                self._defaults(scope)
            elif self._is_id():
                self._node_or_assignment(scope)
            elif not self._take(";") or scope.statement.is_edge:
                raise self._unexpected("a node, a subgraph or an attribute, ; or }")

    def _merge(self, scope: _Scope, members: Mapping[int, None]) -> None:
        self._merged += len(members)
        require_at_most(self._merged, MOST_VALUES, "nodes of subgraphs in subgraphs")
        scope.members.update(members)

    def _node_or_assignment(self, scope: _Scope) -> None:
        name = self._id("a node")
        if self._is("=") and not scope.statement.is_edge:
            self._next()
            self._id("a value")
            self._graph_attributes[name] = None
            self._take(";")
            return
        numbers = [self._node(scope, name)]
        while self._take(","):
            numbers.append(self._node(scope, self._id("a node")))
        scope.statement.ends.append(numbers)
        scope.statement.is_node = True
        self._after_end(scope)

    def _node(self, scope: _Scope, key: str) -> int:
        """Return the number of a node, which is created if it is new, with its port."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
            self._nodes.append(dict(scope.node_defaults))
            require_at_most(number + 1, MOST_NODES, "nodes")
            self._count_values(len(scope.node_defaults))
        scope.members[number] = None
        for _ in range(2):
            if self._take(":"):
                self._ports[f"{key}:{self._id('a port')}"] = None
        return number

    def _after_end(self, scope: _Scope) -> None:
        """After a node or subgraph, read an edge to the next one, or the end of the statement."""
        token = self._token
        if token.kind is _SIGN and token.text in ("->", "--"):
            if (token.text == "->") != self.directed:
                kind, sign = ("digraph", "->") if self.directed else ("graph", "--")
                raise self._unexpected(f"{sign}, the edges of a {kind}")
            self._next()
            scope.statement.is_edge = True
            if not (self._is_id() or self._is_keyword("subgraph") or self._is("{")):
                raise self._unexpected("a node or a subgraph")
            return
        self._end_statement(scope)

    def _end_statement(self, scope: _Scope) -> None:
        statement, scope.statement = scope.statement, _Statement()
        if not statement.ends:
            return
        attributes = {}
        if statement.is_edge or statement.is_node:
            attributes = self._attributes()
        if statement.is_edge:
            self._add_edges(scope, statement, attributes)
        elif attributes:
            for number in statement.ends[0]:
                self._nodes[number].update(attributes)
                self._count_values(len(attributes))
        self._take(";")

    def _add_edges(self, scope: _Scope, statement: _Statement, attributes: Mapping[str, str]) -> None:
        own = {**scope.edge_defaults, **attributes}
        for sources, targets in zip(statement.ends[:-1], statement.ends[1:], strict=True):
            require_at_most(len(self._edges) + len(sources) * len(targets), MOST_EDGES, "edges")
            for source in sources:
                for target in targets:
                    self._add_edge(source, target, own, attributes)

    def _add_edge(self, source: int, target: int, own: dict[str, str], attributes: Mapping[str, str]) -> None:
        """Add an edge. A strict graph has one between two nodes, other graphs one per `key`."""
        key = attributes.get("key")
        if self.strict or key is not None:
            pair = (source, target) if self.directed else (min(source, target), max(source, target))
            before = self._between.get((*pair, None if self.strict else key))
            if before is not None:
                before.attributes.update(attributes)
                return
            own = dict(own)
            self._between[(*pair, None if self.strict else key)] = edge = _Edge(source, target, own)
        else:
            edge = _Edge(source, target, own)
        self._count_values(len(own))
        self._edges.append(edge)

    def _count_values(self, count: int) -> None:
        self._values += count
        require_at_most(self._values, MOST_VALUES, "values of attributes")

    def _attributes(self) -> dict[str, str]:
        """Return the attributes of any number of lists in brackets."""
        attributes: dict[str, str] = {}
        while self._take("["):
            while not self._take("]"):
                key = self._id("an attribute, or ]")
                self._require("=", "= and a value")
                attributes[key] = self._id("a value")
                if not self._take(";"):
                    self._take(",")
        return attributes

    def _defaults(self, scope: _Scope) -> None:
        word = self._next().text
        if scope.statement.is_edge:
            raise self._unexpected("a node or a subgraph")
        if self._take("="):  # rare: an attribute of the graph named like a keyword
            self._id("a value")
            self._graph_attributes[word] = None
            return
        if not self._is("["):
            raise self._unexpected("[")
        attributes = self._attributes()
        if word == "node":
            scope.node_defaults |= attributes
        elif word == "edge":
            scope.edge_defaults |= attributes
        else:
            self._graph_attributes |= dict.fromkeys(attributes)
        self._take(";")

    # Results

    def given(self, name: str) -> GivenGraph:
        """Return the graph that was read last, for other parts of an import."""
        notes = _Notes()
        edges, ways = [], {"forward": 0}
        for edge in self._edges:
            if _is_invisible(edge.attributes):
                notes.add("invisible edges", f"{self._keys[edge.source]} -> {self._keys[edge.target]}")
                continue
            way = edge.attributes.get("dir", "").lower()
            ways[way] = ways.get(way, 0) + 1
            if way == "none" and self.directed:
                notes.assumed["direction of edges with dir=none"] = "as written"
            source, target = self._keys[edge.source], self._keys[edge.target]
            if way == "back":
                notes.assumed["direction of edges with dir=back"] = "from head to tail"
                source, target = target, source
            given = GivenEdge(source, target, notes.edge(edge.attributes))
            edges.append(given)
            if way == "both":  # which is a cycle
                edges.append(given._replace(source=given.target, target=given.source))
        # A graph whose edges all have a direction of their own is drawn like a directed one.
        directed = self.directed or (
            bool(edges) and ways["forward"] + ways.get("back", 0) + ways.get("both", 0) == sum(ways.values())
        )
        joined = {end for edge in edges for end in (edge.source, edge.target)}
        nodes = []
        for key, attributes in zip(self._keys, self._nodes, strict=True):
            if _is_invisible(attributes):
                notes.add("invisible nodes" if key not in joined else "style=invis of nodes", key)
                if key not in joined:
                    continue
            nodes.append(GivenNode(key, notes.node(key, attributes)))
        for attribute in self._graph_attributes:
            notes.graph_attribute(attribute)
        for port in self._ports:
            notes.add("ports", port)
        for subgraph in self._named:
            notes.add("subgraphs", subgraph)
        own = self.name
        if notes.is_drawn:
            own = unprintable(_without_entities(own.replace("\\\\", "\\")))
        return GivenGraph(own or name, nodes, edges, directed, notes.left_out(), notes.assumed)


def _is_invisible(attributes: Mapping[str, str]) -> bool:
    return any(
        word.strip().lower() in ("invis", "invisible") for word in attributes.get("style", "").split(",")
    )


class _Notes:
    """Parts of a graph that are left out, and assumptions about it."""

    def __init__(self) -> None:
        self.assumed: dict[str, str] = {}
        self.is_drawn = False  #: written by `penstock draw`
        self._looks: set[str] = set()
        self._graph: set[str] = set()
        self._listed: dict[str, list[str]] = {}
        self._edge_attributes: dict[int, tuple[Mapping[str, str], Mapping[str, Any]]] = {}

    def add(self, label: str, item: str) -> None:
        self._listed.setdefault(label, []).append(shorten(item, 60))

    def graph_attribute(self, name: str) -> None:
        (self._looks if name in _LOOKS else self._graph).add(name)

    def edge(self, attributes: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the attributes of an edge; edges of one statement share them."""
        known = self._edge_attributes.get(id(attributes))
        if known is None:
            own = self._without_looks(attributes)
            if "label" in own:
                own["label"] = _without_entities(own["label"])
            known = self._edge_attributes[id(attributes)] = (
                attributes,
                own,
            )  # stored, so that its id is not reused
        return known[1]

    def _without_looks(self, attributes: Mapping[str, str]) -> dict[str, Any]:
        self._looks |= attributes.keys() & _LOOKS
        return {key: value for key, value in attributes.items() if key not in _LOOKS}

    def node(self, key: str, attributes: Mapping[str, str]) -> dict[str, Any]:
        """Return the attributes of a node, with the joined lines of its label as its name.

        `penstock draw` writes the parallelism as the last line of a label, and the name as the tooltip.
        """
        if not attributes:
            return {}
        own = self._without_looks(attributes)
        label = own.pop("label", "\\N")
        if "record" in attributes.get("shape", "").lower() and not isinstance(label, _Html):
            label = _without_fields(label)
        lines = _lines_of(label, key)
        drawn = DRAWN_PARALLELISM(lines[-1]) if len(lines) > 1 and "parallelism" not in own else None
        if drawn is not None:
            own["parallelism"] = lines.pop()
            if "tooltip" in attributes:
                lines = _lines_of(attributes["tooltip"], key)
            self.is_drawn = True
            self.assumed["name and parallelism"] = "the lines of labels"
        name = " ".join(lines)
        if not name or name == key:
            return own
        if "name" in own:
            return {**own, "label": name}
        if drawn is None:
            self.assumed["name"] = "the label"
        return {**own, "name": name}

    def left_out(self) -> list[str]:
        listed = [
            f"{label} {first_and_count(items, most=_MOST_LISTED)}" for label, items in self._listed.items()
        ]
        if self._looks:
            listed.append(f"looks ({', '.join(sorted(self._looks))})")
        return [*listed, *(f"graph attribute {attribute_name(name)}" for name in self._graph)]


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_TAG = re.compile(r"<!--.*?-->|<[^<>]*>", re.DOTALL)


def _lines_of(label: str, key: str) -> list[str]:
    """Return the non-empty lines of a label, with escapes of Graphviz, entities and tags of HTML resolved."""
    if isinstance(label, _Html):
        return " ".join(_without_entities(_TAG.sub(" ", label[1:-1])).split()).splitlines()
    text = _without_entities(label)
    if "\\" in text:
        text = _ESCAPE.sub(lambda escape: _escaped(escape[1], key), text)
    return [line for line in text.split("\n") if line]


def _without_fields(label: str) -> str:
    """Return the texts of a record's fields, without their ports, joined by spaces."""
    text = _FIELDS_OF_RECORD.sub(lambda match: match[1] or " ", label)
    return " ".join(text.split())


def _without_entities(text: str) -> str:
    """Resolve HTML's entities in the text; only those that end in a semicolon are entities."""
    if "&" not in text:
        return text
    return _ENTITY.sub(
        lambda entity: unescape(entity[0]) if entity[1][0] == "#" else html5.get(f"{entity[1]};", entity[0]),
        text,
    )


def _escaped(letter: str, key: str) -> str:
    if letter in "nlr":
        return "\n"
    if letter == "N":
        return key
    return f"\\{letter}" if letter in "GETHL" else letter


def read_dot(text: str, file: str, name: str) -> list[GivenGraph]:
    """Return the graphs of a DOT text. A graph without a name gets `name`; labels are names of nodes.

    Nodes and edges of subgraphs belong to the whole graph; an edge to a subgraph is one to each of its nodes.
    Raises InputError, with line and column, for invalid DOT, and BoundError for a graph that is too large.
    """
    reader = _Reader(_tokens(text, file), text, file)
    return [
        graph.given(name if place == 0 else f"{name}-{place + 1}")
        for place, graph in enumerate(reader.graphs())
    ]
