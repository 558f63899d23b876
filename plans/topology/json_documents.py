"""Topologies in JSON that spans lines: pretty-printed objects, one after the other, and arrays of objects.

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

# Keys that a JSON object has twice: parsers keep the last and say nothing.


Path = tuple[str | int, ...]

_ESCAPED = b"\\u003"
"""What an escaped colon starts with."""
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
_LONGEST_PATH = 200
_DEEPEST = 24
"""Parts of a path that are kept; of a deeper one the first, and the key itself."""


def may_have_duplicate_keys(text: bytes, parsed: Any) -> bool:
    """Whether an object in `text`, JSON parsed as `parsed`, may have a key twice; False if surely not.

    The parser drops repeated keys, so colons are counted in both: a parse that keeps all pairs would take ten
    times as long as the one that gave `parsed`.
    """
    if _ESCAPED in text:
        return True
    try:
        return text.count(b":") != orjson.dumps(parsed).count(b":")
    except TypeError:  # nested more deeply than orjson writes
        return True


def duplicate_keys(text: bytes, parsed: dict[str, Any]) -> list[TopologyError]:
    """A DuplicateKey for each key that an object of the topology line `text` has twice or more, at any level.

    In: the line, which is JSON, and its parsed value. Works without recursion, at any depth.
    """
    if not may_have_duplicate_keys(text, parsed):
        return []
    return [_twice(_location(path, parsed), path, count) for path, count in paths_of_duplicates(text).items()]


def duplicate_keys_of_transformation(
    text: bytes, parsed: dict[str, Any], position: int
) -> list[TopologyError]:
    """As duplicate_keys, of the object of one transformation alone."""
    if not may_have_duplicate_keys(text, parsed):
        return []
    where = _name_transformation(parsed.get("id"), position)
    return [_twice(where, path, count) for path, count in paths_of_duplicates(text).items()]


def _twice(where: str, path: Path, count: int) -> TopologyError:
    return TopologyError(
        ErrorKind.DUPLICATE_KEY,
        where,
        f"key {_shown(path)} {count} times",
        "each key of an object once",
        "keep one of them",
    )


def paths_of_duplicates(text: bytes) -> dict[Path, int]:
    """The path, keys and positions, to each key that an object has more than once, and its number.

    In: valid JSON. If several objects share a path, because the key above them is repeated, the largest
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
                    kept = tuple(path) if len(path) <= _DEEPEST else (*path[:_DEEPEST], "…", key)
                    counts[kept] = max(counts.get(kept, 0), count)
    return counts


def _location(path: Path, topology: dict[str, Any]) -> str:
    """The transformation, node or edge that the key is in, as other errors name it."""
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


def _shown(path: Path) -> str:
    """The path below what `_location` names, such as managed_memory.OPERATOR."""
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
"""What is looked at of a file to tell a document from JSON lines."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_PIECE_BYTES = 2**18
"""Cut at once: what is known of each bracket and comma takes a hundred times its byte."""

_SPACES = b" \t\r\n"
_QUOTE, _COMMA, _NEWLINE, _BACKSLASH = b'",\n\\'
_OPENING, _CLOSING = b"{[", b"}]"
_STEP = np.zeros(256, np.int64)
_STEP[list(_OPENING)], _STEP[list(_CLOSING)] = 1, -1
_IS_SIGN = _STEP != 0
_IS_SIGN[[_QUOTE, _COMMA, _NEWLINE]] = True
_FORMS = tuple(f'"{form}"'.encode() for form in TopologyForm)


class Element(NamedTuple):
    """An object of a document, or what stands where one belongs.

    `value` is empty where it takes more bytes than allowed, and where `problem` says what is wrong with the
    document itself. `line`, the one on which it begins, counts from 0.
    """

    value: bytes
    line: int
    too_long_bytes: int | None = None
    problem: str | None = None


class _Sign(NamedTuple):
    """A bracket, comma or newline outside of strings, with the depth before and after it."""

    at: int
    sign: int
    before: int
    after: int
    line: int


def is_document(head: bytes) -> bool:
    """Whether a file that begins with `head` is a document, not JSON lines.

    In: the first HEAD_BYTES of the file, or all of it. A document begins with an array of objects, or with an
    object that its first line opens and does not close. If a line below is a whole topology, the file is JSON
    lines, the first of them broken.
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
    """Whether a file whose first line, of those that are not blank, is `line` may be a document."""
    text = line.removeprefix(BYTE_ORDER_MARK).lstrip(_SPACES)
    return text[:1] == b"[" or (text[:1] == b"{" and _open_brackets(text) > 0)


def elements(texts: Iterable[bytes], max_bytes: int) -> Iterator[Element]:
    """The elements of a document that comes in pieces, each once, in order.

    Elements are the objects and other values at the top level and in top-level arrays. An array that is
    malformed (not closed, commas missing or too many) gives its elements and, at the end, one Element with a
    problem. An object that is never closed takes everything that follows. For an element with more than
    `max_bytes`, no more than that and one piece is ever in memory.
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
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._rest = b""  # backslashes whose end is yet to come
        self._in_string, self._depth, self._line = 0, 0, 0
        self._in_array = self._in_element = False
        self._first_line = 0  # of the element
        self._last = b""  # before the element: a bracket, comma or element of the array
        self._fault: Element | None = None

    def cut(self, text: bytes) -> Iterator[Element]:
        """The elements that end in the next piece of the document."""
        text = self._rest + text
        whole = text.rstrip(b"\\")
        text, self._rest = whole, text[len(whole) :]
        begin = 0
        for at, sign, before, after, line in self._signs(text):
            if self._in_element:
                if sign in _CLOSING and after == self._in_array:
                    yield from self._taken(text[begin : at + 1], self._first_line)
                    self._in_element, begin = False, at + 1
                continue
            if sign in _CLOSING and before == after:  # one too many
                continue
            yield from self._taken(text[begin:at], line)
            begin = at + 1
            if sign == _COMMA and not self._in_array:
                self._wrong("a comma outside of an array", line)
            elif sign == _COMMA:
                if self._last != b"e":
                    self._wrong("a comma without an element before it", line)
                self._last = b","
            elif sign in _CLOSING:
                if self._last == b",":
                    self._wrong("a comma after the last element of an array", line)
                self._in_array, self._last = False, b""
            elif sign == _OPENING[1] and not self._in_array:
                self._in_array, self._last = True, b"["
            elif sign in _OPENING:
                self._in_element, self._first_line, begin = True, line, at
        self._hold(text[begin:])

    def end(self) -> Iterator[Element]:
        """The elements that remain at the end of the document."""
        cut_off = self._in_element
        yield from self._taken(self._rest, self._first_line if cut_off else self._line)
        if self._in_array and not cut_off:
            self._wrong("an array that is not closed", self._line)
        if self._fault is not None:
            yield self._fault

    def _signs(self, text: bytes) -> Iterator[_Sign]:
        """The signs that lie on top, or in an array on top."""
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
        return map(_Sign, *columns)

    def _taken(self, piece: bytes, line: int) -> Iterator[Element]:
        """The held text and `piece` as an element, if they are more than spaces."""
        self._hold(piece)
        size, held = self._held_bytes, b"".join(self._held).strip(_SPACES)
        self._held, self._held_bytes = [], 0
        if line == 0:
            held = held.removeprefix(BYTE_ORDER_MARK)
        if size <= self._max_bytes and not held:
            return
        if self._in_array and self._last == b"e":
            self._wrong("no comma between two elements of an array", line)
        self._last = b"e"
        yield Element(b"", line, size) if size > self._max_bytes else Element(held, line)

    def _hold(self, piece: bytes) -> None:
        if not self._held_bytes and not self._in_element:
            piece = piece.lstrip(_SPACES)
        self._held_bytes += len(piece)
        if self._held_bytes > self._max_bytes:
            self._held.clear()
        else:
            self._held.append(piece)

    def _wrong(self, problem: str, line: int) -> None:
        read = "its elements are read all the same"
        self._fault = self._fault or Element(b"", line, problem=f"{problem}; {read}")


def _is_unescaped(letters: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Whether an even number of backslashes, or none, stands before each of the places `at`."""
    places = np.arange(1, len(letters) + 1)
    # The place after the last letter that is no backslash, up to each place.
    run_starts = np.concatenate([[0], np.maximum.accumulate(np.where(letters != _BACKSLASH, places, 0))])
    return np.asarray((at - run_starts[at]) % 2 == 0)


def _open_brackets(line: bytes) -> int:
    """The number of brackets a line leaves open; 0 if it closes all before its end, or ends in a string."""
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
