"""Keys that a JSON object has twice: parsers keep the last and say nothing."""

import re
from typing import Any

import orjson

from penstock.plans.error_kinds import ErrorKind
from penstock.plans.errors import TopologyError
from penstock.plans.printable import limited
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import TopologyForm

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
