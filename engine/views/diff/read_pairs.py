"""Files of pairs: an old and a new topology, and the operators that have state."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from penstock.plans.errors import InputError
from penstock.plans.topology.columnar.find_topology_files import find_topology_files
from penstock.plans.topology.columnar.parse_block import LineBlock
from penstock.plans.topology.columnar.read_topology_files import blocks_of_files
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.parse_lines import lines_of

BYTES_OF_A_PART = 1 << 23
_SHOWN = 5


class Pair(NamedTuple):
    """The topologies are as topology files hold them. `stateful`: ids of operators; None: all have state."""

    name: str
    old: dict[str, Any]
    new: dict[str, Any]
    stateful: frozenset[int] | None


def read_pairs(path: str) -> Iterator[list[Pair]]:
    """The pairs of JSON lines in a file (.gz, - for standard input), directory or glob, in parts.

    A part is some BYTES_OF_A_PART of lines. Raises InputError: what find_topology_files raises, a file
    without a pair, and all lines of a part that are no pairs.
    """
    part: list[Pair] = []
    wrong: list[str] = []
    size, pairs_read = 0, 0
    for place, line in _lines(path):
        pair = _pair_of(line)
        size += len(line)
        pairs_read += 1
        if isinstance(pair, Pair):
            part.append(pair)
        else:
            wrong.append(f"{place}: {pair}")
        if size >= BYTES_OF_A_PART:
            _require_pairs(wrong)
            yield part
            part, size = [], 0
    _require_pairs(wrong)
    if part:
        yield part
    if not pairs_read:
        raise InputError(f"no pairs in {path}", 'a line is {"name": …, "old": {…}, "new": {…}}')


def _lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Where each line is, and what it holds; blank ones are left out."""
    for block in blocks_of_files(find_topology_files([path]), MAX_LINE_BYTES):
        if isinstance(block, LineBlock):
            data, file, first = block
            for number, line in enumerate(data.split(b"\n")[:-1], first + 1):
                if line.strip():
                    yield f"line {number} of {file}", line
            continue
        for held in lines_of([block]):
            place = f"line {(held.line if held.line is not None else held.ordinal or 0) + 1}"
            place = f"{place} of {held.source_file}"
            if held.problem is not None or held.too_long_bytes is not None:
                raise InputError(f"{place}: {held.problem or 'it is too long'}", "split or mend the file")
            if held.value.strip():
                yield place, held.value


def _pair_of(line: bytes) -> Pair | str:
    """The pair in a line, or a sentence about its fault."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"not JSON: {error}"
    if not isinstance(record, dict):
        return f"found {type(record).__name__}, allowed: an object with old and new"
    for key in ("old", "new"):
        if not isinstance(record.get(key), dict):
            kind = "a value of another kind" if key in record else "nothing"
            return f"{key}: found {kind}, allowed: a topology"
    name, stateful = record.get("name", ""), record.get("stateful")
    if not isinstance(name, str):
        return "name: found no text, allowed: text"
    if stateful is None:
        return Pair(name, record["old"], record["new"], None)
    if not isinstance(stateful, list) or any(type(node) is not int for node in stateful):
        return "stateful: allowed: a list of ids of transformations, or no stateful at all"
    return Pair(name, record["old"], record["new"], frozenset(stateful))


def _require_pairs(wrong: list[str]) -> None:
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise InputError(
            "not pairs of topologies:\n  " + "\n  ".join(wrong[:_SHOWN]) + more,
            'a line is {"name": …, "old": {…}, "new": {…}, "stateful": [ids]}; stateful may be left out',
        )
