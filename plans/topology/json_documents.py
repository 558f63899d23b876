"""Read topologies in JSON that spans lines, as pretty-printed objects in sequence or as arrays of objects.

Text is cut at brackets and commas, without recursion and with at most one element in memory; elements are
parsed elsewhere. Damage stays local: a string ends with its line, as JSON's strings do, and a surplus closing
bracket becomes an element of its own, which is rejected.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.printable import limited
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import TopologyForm

# Duplicate keys of JSON objects; parsers silently use the last.


Path = tuple[str | int, ...]

_ESCAPED = b"\\u003"
"""The beginning of an escaped colon."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
_LONGEST_PATH = 200
_DEEPEST = 24
"""Path parts recorded; for a deeper path, the first parts and the key."""


def may_have_duplicate_keys(text: bytes, parsed: Any) -> bool:
    """Return whether an object in `text`, JSON parsed as `parsed`, may repeat a key; False is certain.

    The parser drops repeated keys, so colons are counted in both: a parse that preserves all pairs would take
    ten times as long as the parse that produced `parsed`.
    """
    if _ESCAPED in text:
        return True
    try:
        return text.count(b":") != orjson.dumps(parsed).count(b":")
    except TypeError:  # nested more deeply than orjson serializes
        return True


def duplicate_keys(text: bytes, parsed: dict[str, Any]) -> list[TopologyError]:
    """Return a DuplicateKey error for each key that an object of the topology line `text` repeats, at any
    level.

    `text`: the line, which is valid JSON; `parsed`: its value. Works without recursion, at any depth.
    """
    if not may_have_duplicate_keys(text, parsed):
        return []
    return [_twice(_location(path, parsed), path, count) for path, count in paths_of_duplicates(text).items()]


def duplicate_keys_of_transformation(
    text: bytes, parsed: dict[str, Any], position: int
) -> list[TopologyError]:
    """As duplicate_keys, for the object of a single transformation."""
    if not may_have_duplicate_keys(text, parsed):
        return []
    where = _name_transformation(parsed.get("id"), position)
    return [_twice(where, path, count) for path, count in paths_of_duplicates(text).items()]


def _twice(where: str, path: Path, count: int) -> TopologyError:
    return TopologyError(
        ErrorKind.DUPLICATE_KEY,
        where,
        f"key {_relative_path(path)} {count} times",
        "each key of an object once",
        "keep one of them",
    )


def paths_of_duplicates(text: bytes) -> dict[Path, int]:
    """Map the path (keys and positions) of each repeated key to its number of occurrences.

    `text` is valid JSON. If several objects share a path, because the key above them is repeated, the largest
    number counts.
    """
    counts: dict[Path, int] = {}
    path: list[str | int] = []
    keys: list[dict[str, int]] = []
    before_key = False
    for token in _TOKENS.finditer(text):
        match token[0]:
            case b"{":
                keys.append({})
                path.append("")
                before_key = True
            case b"[":
                keys.append({})
                path.append(0)
                before_key = False
            case b"}" | b"]":
                keys.pop()
                path.pop()
                before_key = False
            case b",":
                place = path[-1]
                before_key = isinstance(place, str)
                if isinstance(place, int):
                    path[-1] = place + 1
            case string if before_key:
                before_key = False
                key = path[-1] = orjson.loads(string)
                count = keys[-1][key] = keys[-1].get(key, 0) + 1
                if count > 1:
                    recorded = tuple(path) if len(path) <= _DEEPEST else (*path[:_DEEPEST], "…", key)
                    counts[recorded] = max(counts.get(recorded, 0), count)
    return counts


def _location(path: Path, topology: dict[str, Any]) -> str:
    """Return the transformation, node or edge that contains the key, named as in other errors."""
    match path:
        case (TopologyForm.TRANSFORMATIONS, int(place), _, *_):
            transformation_id = _entry(topology.get(TopologyForm.TRANSFORMATIONS), place).get("id")
            return _name_transformation(transformation_id, place + 1)
        case (TopologyForm.STREAM_GRAPH, "nodes" | "edges" as listed, int(place), _, *_):
            graph = topology.get(TopologyForm.STREAM_GRAPH)
            entry = _entry(graph.get(listed) if type(graph) is dict else None, place)
            label, key = ("node", "id") if listed == "nodes" else ("edge", "edge_id")
            return f"{label} {shorten(entry[key])}" if key in entry else f"{label} at position {place + 1}"
        case (TopologyForm.STREAM_GRAPH, _, *_):
            return "stream_graph"
    return "topology"


def _name_transformation(transformation_id: Any, position: int) -> str:
    return (
        f"transformation {transformation_id}"
        if type(transformation_id) is int
        else f"transformation at position {position}"
    )


def _entry(entries: Any, place: int) -> dict[str, Any]:
    entry = entries[place] if type(entries) is list and place < len(entries) else None
    return entry if type(entry) is dict else {}


def _relative_path(path: Path) -> str:
    """Return the path below the object that `_location` names, such as managed_memory.OPERATOR."""
    match path:
        case (TopologyForm.TRANSFORMATIONS, int(), _, *_):
            below = path[2:]
        case (TopologyForm.STREAM_GRAPH, "nodes" | "edges", int(), _, *_):
            below = path[3:]
        case (TopologyForm.STREAM_GRAPH, _, *_):
            below = path[1:]
        case _:
            below = path
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in below)
    return limited("".join(parts).removeprefix("."), _LONGEST_PATH)


HEAD_BYTES = 2**20
"""Bytes of a file examined to distinguish a document from JSON lines."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_PIECE_BYTES = 2**18
"""Bytes cut at once; the data about each bracket and comma takes a hundred times its byte."""

_SPACES = b" \t\r\n"
_QUOTE, _COMMA, _NEWLINE, _BACKSLASH = b'",\n\\'
_OPENING, _CLOSING = b"{[", b"}]"
_STEP = np.zeros(256, np.int64)
_STEP[list(_OPENING)], _STEP[list(_CLOSING)] = 1, -1
_IS_SIGN = _STEP != 0
_IS_SIGN[[_QUOTE, _COMMA, _NEWLINE]] = True
_FORMS = tuple(f'"{form}"'.encode() for form in TopologyForm)


class Element(NamedTuple):
    """An object of a document, or whatever occupies the place of one.

    `value` is empty if the element exceeds the allowed bytes, and if `problem` describes a fault of the
    document itself. `line`, the line on which the element begins, counts from 0.
    """

    value: bytes
    line: int
    too_long_bytes: int | None = None
    problem: str | None = None


class _Token(NamedTuple):
    """A bracket, comma or newline outside strings, with the depth before and after it."""

    at: int
    sign: int
    before: int
    after: int
    line: int


def is_document(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a document rather than JSON lines.

    `head`: the first HEAD_BYTES of the file, or all of it. A document begins with an array of objects, or
    with an object that the first line opens and does not close. If a later line is a whole topology, the file
    is JSON lines with a broken first line.
    """
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip(_SPACES)
    line, _, rest = text.partition(b"\n")
    if not may_open_document(line):
        return False
    if text[:1] == b"[":
        return text[1:].lstrip(_SPACES)[:1] in (b"", b"{", b"]") and (
            rest.lstrip(_SPACES)[:1] != b"{" or _open_brackets(line) > 0
        )
    return bool(rest.strip()) and not any(map(_is_topology, rest.split(b"\n")))


def may_open_document(line: bytes) -> bool:
    """Return whether a file whose first non-blank line is `line` may be a document."""
    text = line.removeprefix(BYTE_ORDER_MARK).lstrip(_SPACES)
    return text[:1] == b"[" or (text[:1] == b"{" and _open_brackets(text) > 0)


def elements(texts: Iterable[bytes], max_bytes: int) -> Iterator[Element]:
    """Yield the elements of a document that arrives in pieces, each once, in order.

    Elements are the objects and other values at the top level and in top-level arrays. A malformed array (not
    closed, missing or surplus commas) yields its elements and, at the end, one Element with a problem. An
    object that is never closed extends to the end. For an element of more than `max_bytes`, at most that many
    bytes and one piece are in memory.
    """
    cutter = _Cutter(max_bytes)
    for text in texts:
        for start in range(0, len(text), _PIECE_BYTES):
            yield from cutter.cut(text[start : start + _PIECE_BYTES])
    yield from cutter.end()


class _Cutter:
    """The position in a document, and the part of the current element that is in memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._rest = b""  # trailing backslashes that may escape the next piece
        self._in_string, self._depth, self._line = 0, 0, 0
        self._in_array = self._in_element = False
        self._first_line = 0  # first line of the element
        self._last = b""  # predecessor of the element in the array: a bracket, comma or element
        self._fault: Element | None = None

    def cut(self, text: bytes) -> Iterator[Element]:
        """Yield the elements that end in the next piece of the document."""
        text = self._rest + text
        whole = text.rstrip(b"\\")
        text, self._rest = whole, text[len(whole) :]
        begin = 0
        for at, sign, before, after, line in self._signs(text):
            if self._in_element:
                if sign in _CLOSING and after == self._in_array:
                    yield from self._completed(text[begin : at + 1], self._first_line)
                    self._in_element, begin = False, at + 1
                continue
            if sign in _CLOSING and before == after:  # a surplus bracket
                continue
            yield from self._completed(text[begin:at], line)
            begin = at + 1
            if sign == _COMMA and not self._in_array:
                self._record_fault("a comma outside of an array", line)
            elif sign == _COMMA:
                if self._last != b"e":
                    self._record_fault("a comma without an element before it", line)
                self._last = b","
            elif sign in _CLOSING:
                if self._last == b",":
                    self._record_fault("a comma after the last element of an array", line)
                self._in_array, self._last = False, b""
            elif sign == _OPENING[1] and not self._in_array:
                self._in_array, self._last = True, b"["
            elif sign in _OPENING:
                self._in_element, self._first_line, begin = True, line, at
        self._append(text[begin:])

    def end(self) -> Iterator[Element]:
        """Yield the elements that remain at the end of the document."""
        cut_off = self._in_element
        yield from self._completed(self._rest, self._first_line if cut_off else self._line)
        if self._in_array and not cut_off:
            self._record_fault("an array that is not closed", self._line)
        if self._fault is not None:
            yield self._fault

    def _signs(self, text: bytes) -> Iterator[_Token]:
        """Return the tokens at the top level or directly in a top-level array."""
        letters = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(_IS_SIGN[letters])
        signs = letters[at]
        newlines, quotes = signs == _NEWLINE, signs == _QUOTE
        if b"\\" in text:
            quotes &= _is_unescaped(letters, at)
        counted = np.cumsum(quotes) + self._in_string
        in_string = (counted - np.maximum.accumulate(np.where(newlines, counted, 0))) & 1
        outside = (in_string == 0) & ~quotes & (signs != _QUOTE)
        walk = self._depth + np.cumsum(np.where(outside, _STEP[signs], 0))
        after = walk - np.minimum.accumulate(np.minimum(walk, 0))
        before = np.concatenate([[self._depth], after[:-1]])
        lines = self._line + np.cumsum(newlines) - newlines
        wanted = np.flatnonzero(outside & (np.minimum(before, after) <= 1))
        if len(at):
            self._in_string, self._depth = int(in_string[-1]), int(after[-1])
            self._line += int(newlines.sum())
        columns = (column[wanted].tolist() for column in (at, signs, before, after, lines))
        return map(_Token, *columns)

    def _completed(self, piece: bytes, line: int) -> Iterator[Element]:
        """Yield the pending text and `piece` as an element, unless they are only spaces."""
        self._append(piece)
        size, element = self._pending_bytes, b"".join(self._pending).strip(_SPACES)
        self._pending, self._pending_bytes = [], 0
        if line == 0:
            element = element.removeprefix(BYTE_ORDER_MARK)
        if size <= self._max_bytes and not element:
            return
        if self._in_array and self._last == b"e":
            self._record_fault("no comma between two elements of an array", line)
        self._last = b"e"
        yield Element(b"", line, size) if size > self._max_bytes else Element(element, line)

    def _append(self, piece: bytes) -> None:
        if not self._pending_bytes and not self._in_element:
            piece = piece.lstrip(_SPACES)
        self._pending_bytes += len(piece)
        if self._pending_bytes > self._max_bytes:
            self._pending.clear()
        else:
            self._pending.append(piece)

    def _record_fault(self, problem: str, line: int) -> None:
        consequence = "its elements are still read"
        self._fault = self._fault or Element(b"", line, problem=f"{problem}; {consequence}")


def _is_unescaped(letters: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return whether an even number of backslashes precedes each of the positions `at`."""
    places = np.arange(1, len(letters) + 1)
    # For each position, the position after the last letter before it that is not a backslash.
    run_starts = np.concatenate([[0], np.maximum.accumulate(np.where(letters != _BACKSLASH, places, 0))])
    return np.asarray((at - run_starts[at]) % 2 == 0)


def _open_brackets(line: bytes) -> int:
    """Return the number of brackets a line leaves open; 0 if it closes all before its end, or ends in a
    string.
    """
    cutter = _Cutter(len(line))
    signs = list(cutter._signs(line))
    closed = any(sign.after == 0 for sign in signs)
    return 0 if closed or cutter._in_string else cutter._depth


def _is_topology(line: bytes) -> bool:
    text = line.strip(_SPACES)
    if text[:1] != b"{" or text[-1:] != b"}" or not any(form in text for form in _FORMS):
        return False
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return any(form in document for form in TopologyForm)
