"""Read edge lists as graphs. Each line has an edge, its ends and further facts about it.

Trivial Graph Format and the adjacency lists of networkx are supported, too.
"""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import MOST_EDGES, MOST_NODES, require_at_most
from penstock.plans.importing.given_graph import (
    EDGE_ATTRIBUTES,
    NODE_ATTRIBUTES,
    GivenEdge,
    GivenGraph,
    GivenNode,
)
from penstock.plans.importing.importers import READ_FORMS, ending_of
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import Partitioner

_FIELD_LIMIT = 131_072
"""The most characters of a cell."""

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""By file extension; other files are separated by spaces, tabs, or as detected from their lines."""

_SPACES, _ARROWS = "spaces", "arrows"
_OTHERS = ("\t", ",", ";", "|")
_COMMENTS = ("#", "%", "//")
_SAMPLE = 200
_MOST_LISTED = 3

_WORD = re.compile(r'"(?:[^"\\]|\\.|"")*"(?=\s|$)|\'[^\']*\'(?=\s|$)|\S+')
_OBJECT_BEGINS = re.compile(r"(?:^|\s)\{")
_ARROW = re.compile(r"(?<![-=])[-=]++>|→")
_ARROW_OR_QUOTED = re.compile(r'(?<![^\s>→])(?:"(?:[^"\\]|\\.|"")*"|\'[^\']*\')|((?<![-=])[-=]++>|→)')
_SEPARATOR_OF_EXCEL = re.compile(r"sep=([,;|\t])", re.IGNORECASE).fullmatch
_NUMBER = re.compile(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?", re.IGNORECASE).fullmatch
_PARTITIONERS = frozenset(map(str, Partitioner))


class _Row(NamedTuple):
    """A non-blank line, with the object at its end as `facts`."""

    number: int
    cells: Sequence[str]
    facts: Mapping[str, Any] | None = None


class _Comments:
    """Lines of a file that are left out."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def add(self, line: str) -> None:
        self.count += 1
        if self.count <= _SAMPLE:
            self.lines.append(line.strip())

    def left_out(self) -> list[str]:
        if not self.count:
            return []
        shown = ", ".join(shorten(line, 60) for line in self.lines[:_MOST_LISTED])
        more = self.count - _MOST_LISTED
        return [f"comments {shown}" + (f", and {more:,} more" if more > 0 else "")]


def read_edge_list(text: str, file: str, name: str) -> GivenGraph:
    """Return the graph of an edge list.

    A first line with a column for the source and one for the target names the columns: others are attributes
    of edges, and those named after an end (source_parallelism) attributes of nodes. Without it, the first two
    cells are the ends; others are the partitioner, numbers, or an object, as networkx writes it. A line with
    one cell is a node. Blank lines and lines that begin with #, % or // are left out. Raises InputError with
    the line number.
    """
    if ".adjlist" in file.lower()[-12:]:
        return _read_multiline_adjacency(text, name) or _read_adjacency(text, file, name)
    separator = _SEPARATORS.get(ending_of(file))
    comments = _Comments()
    first_line, _, others = text.partition("\n")
    if (excel_separator := _SEPARATOR_OF_EXCEL(first_line.rstrip("\r"))) is not None:
        separator, text = excel_separator[1], f"\n{others}"
        comments.add(first_line)
    sample = list(islice(_data_lines(text, _Comments()), _SAMPLE))
    if separator is None:
        other = _read_tgf(text, file, name) or _read_multiline_adjacency(text, name)
        if other is not None:
            return other
    if sample and all(
        line.lstrip(" [").startswith("(") and line.rstrip(" ,]").endswith(")") for _, line in sample
    ):
        found = f"{shorten(sample[0][1], 60)}, Python tuples"
        raise _wrong(file, sample[0][0], found, "source and target without parentheses")
    mode = _mode(sample, separator)
    reader = _Reader(file)
    first = True
    for row in _rows(text, mode, comments, file):
        if first:
            first = False
            if reader.take_header(row, row.cells):
                continue
            for line in comments.lines:
                plain = line.lstrip("#%/ \t")
                if reader.take_header(row, [cell.strip() for cell in _split(plain, mode)], commented=True):
                    comments.lines.remove(line)
                    comments.count -= 1
                    break
        reader.add(row)
    assumed = dict(reader.assumed)
    if reader.begins_apart():
        assumed["first line"] = "an edge, not column names"
    if mode != (separator or _SPACES):
        assumed["separator"] = mode if mode in (_ARROWS, _SPACES) else repr(mode)
    if any(re.match(r"%\s*sym\b", line) for line in comments.lines):
        assumed["direction"] = "from the first node of a line to the second, despite sym in the file"
    return GivenGraph(name, reader.given_nodes(), reader.edges, left_out=comments.left_out(), assumed=assumed)


# Division of lines into cells.


def _data_lines(text: str, comments: _Comments) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is neither blank nor a comment."""
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        plain = line.strip()
        if plain.startswith(_COMMENTS):
            comments.add(plain)
        elif plain:
            yield number, line.rstrip("\n")


def _mode(sample: Sequence[tuple[int, str]], by_ending: str | None) -> str:
    """Return how the lines are divided, by a separator, arrows, or spaces."""
    lines = [line for _, line in sample]
    if not lines:
        return by_ending or _SPACES
    order = [by_ending] if by_ending is not None else [_SPACES, _ARROWS]
    order += [separator for separator in _OTHERS if separator not in order]
    order += [mode for mode in (_ARROWS, _SPACES) if mode not in order]
    for mode in order:
        if _has_ends(_split(lines[0], mode)):
            return mode
    if by_ending is not None and by_ending in lines[0] and not all(";" in line for line in lines):
        return by_ending
    if not any(map(_has_arrows, lines)):
        order.remove(_ARROWS)
    fitting = next(
        (
            mode
            for mode in order
            if all(_fits(line, mode) for line in lines)
            and not (len(lines) == 1 and _is_prose(lines[0], mode))
        ),
        None,
    )
    return fitting or by_ending or (_ARROWS if any(map(_has_arrows, lines)) else _SPACES)


def _split(line: str, mode: str) -> list[str]:
    """Return the cells of one line."""
    if mode == _SPACES:
        return [_unquoted(word) for word in _WORD.findall(line)]
    if mode == _ARROWS:
        return [_unquoted(cell) for cell in _cells_at_arrows(line)]
    try:
        return next(csv.reader([line], delimiter=mode, skipinitialspace=True), [])
    except csv.Error:
        return []


def _cells_at_arrows(line: str) -> list[str]:
    cells, place = [], 0
    for match in _ARROW_OR_QUOTED.finditer(line):
        if match[1]:
            cells.append(line[place : match.start()].strip())
            place = match.end()
    return [*cells, line[place:].strip().rstrip(";,").rstrip()]


def _divided(line: str) -> tuple[str, str | None]:
    """Return a line without the object at its end, and that object."""
    match = _OBJECT_BEGINS.search(line) if line.rstrip().endswith("}") else None
    return (line, None) if match is None else (line[: match.start()], line[match.start() :].strip())


def _fits(line: str, mode: str) -> bool:
    if mode == _SPACES:
        words = _WORD.findall(_divided(line)[0])
        bare = [word for word in words if not _is_quoted(word)]
        if any(word[0] in ",;|" or word[-1] in ",;|" for word in bare) or _has_arrows(line):
            return False
        if len(words) == 1 and bare and any(sign in bare[0] for sign in ",;|"):
            return False
        end = next((place for place, word in enumerate(words) if word == "#"), len(words))
        return all(word.lower() in _PARTITIONERS or _NUMBER(word) for word in words[2:end])
    if mode == _ARROWS:
        cells = _cells_at_arrows(line)
        return all(_is_quoted(cell) or not re.search(r"\s", cell) for cell in cells)
    return mode in line and len(_split(line, mode)) > 1


def _is_prose(line: str, mode: str) -> bool:
    """Return whether a line may be a sentence rather than names that contain spaces."""
    return mode in _OTHERS and any(" " in cell.strip() for cell in _split(line, mode))


def _has_arrows(line: str) -> bool:
    """Return whether arrows are between the words of a line, or in its only word, rather than
    part of names.
    """
    words = _WORD.findall(_divided(line)[0])
    bare = [word for word in words if not _is_quoted(word)]
    if len(words) == 1:
        return bool(bare) and _ARROW.search(bare[0]) is not None
    return any(
        match.start() == 0 or match.end() == len(word) for word in bare for match in _ARROW.finditer(word)
    )


def _is_quoted(word: str) -> bool:
    return len(word) > 1 and word[0] == word[-1] and word[0] in "\"'"


def _unquoted(word: str) -> str:
    if not _is_quoted(word):
        return word
    plain = word[1:-1]
    return re.sub(r'\\(.)|"(")', lambda match: match[1] or match[2], plain) if word[0] == '"' else plain


def _rows(text: str, mode: str, comments: _Comments, file: str) -> Iterator[_Row]:
    """Yield the non-blank rows; a row of several lines has the number of the last."""
    if mode in (_SPACES, _ARROWS):
        for number, line in _data_lines(text, comments):
            if mode == _SPACES:
                yield _row_of_words(number, line, comments, file)
            else:
                yield from _rows_of_arrows(number, line, file)
        return
    current = 0

    def lines() -> Iterator[str]:
        nonlocal current
        is_open = False
        for line in io.StringIO(text, newline=None):
            current += 1
            if not is_open and line.lstrip().startswith(_COMMENTS):
                comments.add(line)
                continue
            is_open ^= line.count('"') % 2 == 1
            yield line

    rows = csv.reader(lines(), delimiter=mode, skipinitialspace=True, strict=True)
    before = csv.field_size_limit(_FIELD_LIMIT)  # a process-wide setting; reading CSV records changes it, too
    try:
        for cells in rows:
            plain = [_without_single_quotes(cell.strip()) for cell in cells]
            if len(cells) == 1 and any(separator in plain[0] for separator in _OTHERS):
                allowed = "source and target, divided as in the other lines"
                raise _wrong(file, current, shorten(plain[0], 60), allowed)
            if any(plain):
                yield _Row(current, plain)
    except csv.Error as error:
        raise _wrong(file, current, str(error), "CSV as of RFC 4180") from None
    finally:
        csv.field_size_limit(before)


def _without_single_quotes(cell: str) -> str:
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == "'" else cell


def _row_of_words(number: int, line: str, comments: _Comments, file: str) -> _Row:
    before, given = _divided(line)
    facts = None if given is None else _object(given, file, number)
    words = _WORD.findall(before)
    if "#" in words[1:]:
        place = words.index("#", 1)
        comments.add(" ".join(words[place:]))
        words = words[:place]
    for word in words:
        if word[0] in "\"'" and not _is_quoted(word) and word.count(word[0]) == 1:
            raise _wrong(
                file, number, f"{shorten(word, 60)}, a quoted name that does not end", "a closing quote"
            )
    if (
        len(words) == 1
        and not _is_quoted(words[0])
        and (_ARROW.search(words[0]) or re.search("[,;|]", words[0]))
    ):
        raise _wrong(file, number, shorten(words[0], 60), "source and target, divided as in the other lines")
    return _Row(number, [_unquoted(word) for word in words], facts)


def _rows_of_arrows(number: int, line: str, file: str) -> Iterator[_Row]:
    """Yield the edges of a chain of arrows, or a node."""
    cells = _cells_at_arrows(line)
    for cell in cells:
        if not cell or (not _is_quoted(cell) and re.search(r"\s", cell)):
            found = f"{shorten(cell, 60)} next to an arrow" if cell else "an arrow without a name next to it"
            raise _wrong(file, number, found, "a name; one with spaces in quotes")
    names = [_unquoted(cell) for cell in cells]
    if len(names) == 1:
        yield _Row(number, names)
    for source, target in pairwise(names):
        yield _Row(number, [source, target])


def _object(text: str, file: str, number: int) -> Mapping[str, Any]:
    """Parse an object in JSON, or as Python prints it."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return {str(key): item for key, item in value.items()}
    raise _wrong(file, number, f"{shorten(text, 60)}, which is not an object", "JSON, or a dict of Python")


# Meaning of the cells of a row.


def _ends(word: str, *prefixes: str) -> set[str]:
    return {
        f"{prefix}{word}{suffix}"
        for prefix in ("", *prefixes)
        for suffix in ("", "id", "node", "nodeid", "key")
    }


_SOURCES = tuple(sorted(_ends("source") | _ends("from") | _ends("src") | {"operatorid1", "node1", "startid"}))
_TARGETS = tuple(
    sorted(
        _ends("target") | _ends("to") | _ends("dst") | _ends("dest") | _ends("destination")
        | {"operatorid2", "node2", "endid"}
    )
)  # fmt: skip
_END_PATTERNS = (
    re.compile(r"(?:source|src|from)[_ .:-]?(.+)"),
    re.compile(r"(?:target|dst|dest|destination|to)[_ .:-]?(.+)"),
)
_NUMBERED = re.compile(r"(?:operator_)?(.+)([12])")
_NODE_COLUMNS = {"total_number_of_operator_instances": "parallelism", "instances": "parallelism"}
_IDS, _LABELS = ("id", "nodeid", "node", "vertex", "key"), ("label", "name", "type", "kind", "parallelism")


def _normal(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())


def _has_ends(cells: Sequence[str]) -> bool:
    words = [_normal(cell) for cell in cells]
    return any(word in _SOURCES for word in words) and any(word in _TARGETS for word in words)


class _Columns(NamedTuple):
    """Positions in a row of both ends, of their attributes, and of the edge's."""

    width: int
    source: int
    target: int
    of_source: Mapping[int, str]
    of_target: Mapping[int, str]
    of_edge: Mapping[int, str]


def _columns(cells: Sequence[str]) -> _Columns:
    words = [cell.lower() for cell in cells]
    normal = [_normal(word) for word in words]
    source = next(place for place, word in enumerate(normal) if word in _SOURCES)
    target = next(place for place, word in enumerate(normal) if word in _TARGETS)
    of_source: dict[int, str] = {}
    of_target: dict[int, str] = {}
    of_edge: dict[int, str] = {}
    numbered = normal[source].endswith("1") and normal[target].endswith("2")
    for place, word in enumerate(words):
        if place in (source, target):
            continue
        own = _NUMBERED.fullmatch(word) if numbered else None
        if own is not None:
            key = _NODE_COLUMNS.get(own[1], own[1])
            (of_source if own[2] == "1" else of_target)[place] = key
            continue
        match = next(
            (
                (of_end, match[1])
                for of_end, pattern in zip((of_source, of_target), _END_PATTERNS, strict=True)
                if (match := pattern.fullmatch(word))
                and match[1] in (*NODE_ATTRIBUTES, "label", *_NODE_COLUMNS)
            ),
            None,
        )
        if match is None:
            of_edge[place] = word
        else:
            match[0][place] = _NODE_COLUMNS.get(match[1], match[1])
    return _Columns(len(cells), source, target, of_source, of_target, of_edge)


class _Reader:
    """Nodes and edges of the rows so far."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._columns: _Columns | None = None
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: list[GivenEdge] = []
        self.assumed: dict[str, str] = {}

    def given_nodes(self) -> list[GivenNode]:
        return [GivenNode(key, attributes) for key, attributes in self.nodes.items()]

    def take_header(self, row: _Row, cells: Sequence[str], *, commented: bool = False) -> bool:
        """Return whether the cells name the columns, and record them. Raises InputError for a
        table of nodes.
        """
        if commented and len(cells) != len(row.cells):
            return False
        if not _has_ends(cells):
            words = [_normal(cell) for cell in row.cells]
            if len(words) > 1 and words[0] in _IDS and words[1] in _LABELS:
                found = f"{shorten(', '.join(row.cells), 60)}, a table of nodes"
                raise _wrong(self._file, row.number, found, "a table of edges: source, target, …")
            return False
        words = [cell.lower() for cell in cells]
        if twice := next((word for place, word in enumerate(words) if word in words[:place]), None):
            raise _wrong(self._file, row.number, f"two columns {shorten(twice, 40)}", "each column once")
        self._columns = _columns(cells)
        self.assumed["columns"] = (
            f"as named in the {'comment' if commented else 'line'} {shorten(', '.join(cells), 80)}"
        )
        return True

    def add(self, row: _Row) -> None:
        if self._columns is not None:
            self._add_by_columns(row, self._columns)
        elif len(row.cells) == 1:
            self._node(row, row.cells[0], row.facts or {})
        else:
            self._add_by_place(row)
        require_at_most(len(self.nodes), MOST_NODES, "nodes")
        require_at_most(len(self.edges), MOST_EDGES, "edges")

    def begins_apart(self) -> bool:
        """Return whether no other edge is connected to the first one, which may be a line of column names."""
        if self._columns is not None or len(self.edges) < 2 or self.edges[0].attributes:
            return False
        first = set(self.edges[0][:2])
        return not any(edge.source in first or edge.target in first for edge in self.edges[1:])

    def _node(self, row: _Row, key: str, attributes: Mapping[str, Any]) -> None:
        known = self.nodes.setdefault(key, {})
        for name, value in attributes.items():
            if known.setdefault(name, value) != value:
                found = (
                    f"{name} {shorten(value, 40)} of {shorten(key, 40)}, which has {shorten(known[name], 40)}"
                )
                raise _wrong(self._file, row.number, found, "the same in each line")

    def _edge(self, row: _Row, source: str, target: str, attributes: Mapping[str, Any]) -> None:
        if not source or not target:
            found = f"{shorten(list(row.cells), 60)}, which has no {'target' if source else 'source'}"
            raise _wrong(self._file, row.number, found, "source and target")
        self._node(row, source, {})
        self._node(row, target, {})
        self.edges.append(GivenEdge(source, target, attributes))

    def _add_by_columns(self, row: _Row, columns: _Columns) -> None:
        cells = row.cells
        if len(cells) > columns.width:
            raise _wrong(
                self._file, row.number, f"{len(cells)} cells", f"{columns.width}, as in the first line"
            )
        cells = [*cells, *[""] * (columns.width - len(cells))]
        own = {name: cells[place] for place, name in columns.of_edge.items() if cells[place]}
        source, target = cells[columns.source], cells[columns.target]
        if str(own.get("type", "")).lower() == "undirected":  # Gephi's column
            self.assumed["direction"] = "from source to target, despite undirected in the file"
        if target or own or row.facts or not source:
            self._edge(row, source, target, {**own, **(row.facts or {})})
        for key, of_end in ((source, columns.of_source), (target, columns.of_target)):
            attributes = {name: cells[place] for place, name in of_end.items() if cells[place]}
            if key:
                self._node(row, key, attributes)
            elif attributes:
                self._edge(row, source, target, {})

    def _add_by_place(self, row: _Row) -> None:
        source, target, *others = row.cells
        if not target and not any(others) and source:
            self._node(row, source, row.facts or {})
            return
        self._edge(row, source, target, {**self._others(row, others), **(row.facts or {})})

    def _others(self, row: _Row, others: Sequence[str]) -> dict[str, Any]:
        """Return the cells after both ends as attributes, if no line names columns."""
        attributes: dict[str, Any] = {}
        for place, cell in enumerate(others, 3):
            if not cell:
                continue
            if cell.lower() in _PARTITIONERS and EDGE_ATTRIBUTES[0] not in attributes:
                attributes[EDGE_ATTRIBUTES[0]] = cell
            elif _NUMBER(cell):
                attributes["weight" if "weight" not in attributes else f"column {place}"] = cell
            elif cell.startswith("{") and len(others) == place - 2:
                attributes |= _object(cell, self._file, row.number)
            else:
                found = f"{shorten(' '.join(filter(None, others)), 60)} after source and target"
                allowed = "a partitioner or a number; or a first line that names columns: source,target,…"
                raise _wrong(self._file, row.number, found, allowed)
        return attributes


# Lists of nodes and their readers.


def _read_tgf(text: str, file: str, name: str) -> GivenGraph | None:
    """Read Trivial Graph Format (nodes with labels, a line with only #, and edges); None for
    anything else.
    """
    lines = [line.strip() for line in text.splitlines()]
    if lines.count("#") != 1:
        return None
    middle = lines.index("#")
    nodes = [line.split(None, 1) for line in lines[:middle] if line]
    edges = [line.split(None, 2) for line in lines[middle + 1 :] if line]
    ids = {words[0] for words in nodes}
    if not file.lower().endswith(".tgf") and any(words[1] in ids for words in nodes if len(words) > 1):
        return None  # an edge list with an empty comment
    if not nodes or any(not ids.issuperset(words[:2]) or len(words) < 2 for words in edges):
        return None
    return GivenGraph(
        name,
        [GivenNode(words[0], {"label": words[1]} if len(words) > 1 else {}) for words in nodes],
        [GivenEdge(words[0], words[1], {"label": words[2]} if len(words) > 2 else {}) for words in edges],
        lists_nodes=True,
    )


def _read_multiline_adjacency(text: str, name: str) -> GivenGraph | None:
    """Read networkx's multi-line adjacency list (a node and a count, then as many lines of targets), else
    None.
    """
    comments = _Comments()
    nodes: list[GivenNode] = []
    edges: list[GivenEdge] = []
    lines = [line for _, line in _data_lines(text, comments)] if "{" in text else []
    place = 0
    while place < len(lines):
        head, _, count = lines[place].rpartition(" ")
        if not head or not count.isdecimal() or len(count) > 9 or place + int(count) >= len(lines):
            return None
        nodes.append(GivenNode(head, {}))
        for line in lines[place + 1 : place + 1 + int(count)]:
            target, given = _divided(line)
            if given is None:
                return None
            try:
                attributes = _object(given, "", 0)
            except InputError:
                return None
            edges.append(GivenEdge(head, target.strip(), attributes))
        place += 1 + int(count)
    return GivenGraph(name, nodes, edges, left_out=comments.left_out()) if nodes else None


def _read_adjacency(text: str, file: str, name: str) -> GivenGraph:
    """Read an adjacency list, whose lines have a node and its readers."""
    comments = _Comments()
    reader = _Reader(file)
    for row in _rows(text, _SPACES, comments, file):
        reader.add(row._replace(cells=row.cells[:1], facts=None))
        for target in row.cells[1:]:
            reader.add(row._replace(cells=[row.cells[0], target]))
    return GivenGraph(name, reader.given_nodes(), reader.edges, left_out=comments.left_out())


def _wrong(file: str, number: int, found: str, allowed: str) -> InputError:
    return InputError(
        f"{file}, line {number}: found {found}; allowed: {allowed}",
        f"it is read as an edge list; penstock import reads {READ_FORMS}",
    )
