"""Topology lines read all at once, and one by one."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
import pyarrow as pa
import pytest

from penstock.plans.topology import canonical_texts, parse_block
from penstock.plans.topology import parse_block as lines_as_arrow
from penstock.plans.topology.lines_batch import lines_batch
from penstock.plans.topology.parse_block import LineBlock, find_plain_lines
from penstock.plans.topology.parse_lines import parse_lines
from tests.reference.random_topologies import MODES, random_topology

FILE, FIRST = "/a/file.jsonl", 7


@contextmanager
def few_are_many() -> Iterator[None]:
    """As few lines as tests have are read all at once, too."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parse_block, "is_worth_compiling", lambda _: True)
        patched.setattr(canonical_texts, "is_worth_compiling", bool)
        patched.setattr(lines_as_arrow, "_LINES_AT_ONCE", (4, 1))
        yield


def found(data: bytes) -> list[dict[str, Any]]:
    """All rows that a block of these lines gives."""
    return _rows(parse_block.parse_block(LineBlock(data, FILE, FIRST)))


def expected(data: bytes) -> list[dict[str, Any]]:
    """All rows that single lines give."""
    values = data.split(b"\n")[:-1]
    return _rows(list(parse_lines([lines_batch(values, FILE, range(FIRST, FIRST + len(values)))])))


def _rows(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    for batch in batches:
        batch.validate(full=True)
    rows = pa.Table.from_batches(batches).to_pylist()
    return [row for row in rows if row["block_lines"] is None]


def plain(lines: Sequence[bytes]) -> int:
    """How many lines are read all at once."""
    block = LineBlock(b"".join(line + b"\n" for line in lines), FILE, 0)
    found_lines = find_plain_lines(block.data, lines_as_arrow.RARE_KEYS)
    return len(parse_block._plain_lines(block, found_lines)[1])


def random_lines(seed: int, count: int) -> list[dict[str, Any]]:
    return [random_topology(seed + i, 2 + (seed + i) % 9, mode=MODES[i % len(MODES)]) for i in range(count)]


def written(topology: Any, how: int) -> bytes:
    """JSON as several writers write it."""
    match how:
        case 0:
            return orjson.dumps(topology)
        case 1:
            return json.dumps(topology).encode()
        case 2:
            return json.dumps(topology, ensure_ascii=False, separators=(" ,\t", "\r : ")).encode() + b"\r"
    return b"\t" + json.dumps(topology, indent=1).replace("\n", " ").encode() + b"  "


def written_or_not(topology: dict[str, Any], how: int) -> bytes:
    """As `written`; orjson knows no large integers."""
    return json.dumps(topology).encode() if how == 0 else written(topology, how)
