"""Limit the bytes, depth, nodes, edges and seconds of reading foreign files.

A small file can expand to a huge one: by compression, aliases, products of subgraphs, or nesting. Every
reader of foreign files checks the size of its results with these functions before it creates them.
"""

import ctypes
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.plans.errors import InputError

MOST_BYTES = 256 << 20
"""Limit of a file of graphs, decompressed."""
MOST_BYTES_OF_YAML = 1 << 20
MOST_NODES = 2_000_000
MOST_EDGES = 5_000_000
MOST_VALUES = 20_000_000
"""Attributes of all nodes and edges together, set or not."""
DEEPEST = 100
MOST_SECONDS = 180.0
MOST_VALUES_OF_YAML = 100_000
"""Including values of an alias each time that it is used."""

_HINT = "divide the file, or give the graph as topology lines"


class BoundError(ValueError):
    """A file exceeds a limit; the message names the limit."""


def require_at_most(count: int, most: int, items: str) -> None:
    """Raise BoundError if `count`, a number of `items`, exceeds the limit `most`."""
    if count > most:
        raise BoundError(f"found more than {most:,} {items}, the most that is read")


def bounded_text(texts: Iterable[bytes], most_bytes: int = MOST_BYTES) -> bytes:
    """Return the texts of a file joined; reading stops beyond `most_bytes`. Raises BoundError."""
    pieces: list[bytes] = []
    size = 0
    for text in texts:
        size += len(text)
        require_at_most(size, most_bytes, "bytes, unpacked")
        pieces.append(text)
    return b"".join(pieces)


class _TimeLimit(BaseException):
    """Raised in the reading thread; a BaseException, so that parsers do not treat it as an error in their
    input.
    """


@contextmanager
def bounded_file(file: str) -> Iterator[None]:
    """In the block, turn a BoundError into an InputError that names the file."""
    try:
        yield
    except BoundError as error:
        raise InputError(f"cannot read {file}: {error}", _HINT) from None
    except _TimeLimit:  # while bounded_seconds was being left
        raise InputError(f"cannot read {file}: {_too_long(MOST_SECONDS)}", _HINT) from None


@contextmanager
def bounded_seconds(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """Raise BoundError if the block, in Python, takes longer."""
    thread = threading.get_ident()
    lock = threading.Lock()
    ended = False

    def end() -> None:
        with lock:
            if not ended:
                _raise_in(thread, _TimeLimit)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        try:
            timer.start()
            yield
        finally:
            with lock:
                ended = True
                _raise_in(thread, None)
            timer.cancel()
    except _TimeLimit:  # raised anywhere in the block
        raise _too_long(seconds) from None


def _too_long(seconds: float) -> BoundError:
    return BoundError(f"reading takes longer than {seconds:g} s, the limit")


def _raise_in(thread: int, error: Any) -> None:
    """Raise `error` in a thread; None cancels a pending error."""
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def require_bounded_yaml(root: Any) -> None:
    """Raise BoundError for a YAML node that expands to too many values, or nests too deep.

    Each node is visited once: the target of an alias is counted, not expanded. An alias to an enclosing node
    counts once; it becomes an object that contains itself.
    """
    sizes: dict[int, int] = {}
    heights: dict[int, int] = {}
    stack: list[tuple[Any, bool]] = [] if root is None else [(root, False)]
    open_nodes: set[int] = set()
    while stack:
        node, is_done = stack.pop()
        own = id(node)
        children = _children(node)
        if is_done:
            open_nodes.discard(own)
            sizes[own] = 1 + sum(sizes.get(id(child), 1) for child in children)
            heights[own] = 1 + max((heights.get(id(child), 1) for child in children), default=0)
            require_at_most(sizes[own], MOST_VALUES_OF_YAML, "values")
            require_at_most(heights[own], DEEPEST, "levels of lists and objects")
        elif own not in sizes and own not in open_nodes:
            open_nodes.add(own)
            stack.append((node, True))
            stack += [(child, False) for child in children]


def _children(node: Any) -> list[Any]:
    if not isinstance(node.value, list):
        return []
    pairs = node.value and isinstance(node.value[0], tuple)
    return [part for pair in node.value for part in pair] if pairs else list(node.value)
