"""Topology lines that nobody should write: golden ones with something changed, and some made to hurt."""

import gzip
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[2] / "golden"
LONGEST_GOLDEN = 12_000
"""Bytes of the golden lines that are changed: a fuzz is of many lines, not of long ones."""

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^][{},:"\s]+')
_SORT_REFUSED = {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.enabled": "false"}

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 32768, 32769, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63,
    -(2**63), 2**64, 10**400, 0.0, -0.0, 0.1, 1e-320, 1.7e308, "", " ", "\0", "a\0b", "é", "e\u0301",
    "\u202e", "\x1b[31m", "\U0001f600", "1", "true", "null", "-1", "10 s", "BATCH", [], [[]], {}, {"": None},
    [1], [None], "x" * 5_000,
)  # fmt: skip
RAW = (
    b"1e999", b"-1e999", b"1e-999", b"9" * 100_000, b"0." + b"1" * 5_000, b"NaN", b"Infinity", b"-0", b"01",
    b"+1", b"1.", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\x00"',
    b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'"\\x41"', b'"\t"', b"'a'", b"undefined", b"{}{}",
    b"[" * 3_000 + b"]" * 3_000, b"[" * 1_000 + b"]" * 1_000, b"[" * 250 + b"]" * 250,
    b"[" * 990 + b"]" * 990, b'{"a":' * 1_000 + b"1" + b"}" * 1_000, b'{"a":' * 300 + b"1" + b"}" * 300,
    b'"' + b"m" * 1_000_000 + b'"', b"[" + b"0," * 20_000 + b"0]", b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}',
    b"{" + b",".join(b'"k%d":%d' % (i, i) for i in range(2_000)) + b"}",
)  # fmt: skip
"""JSON, or nearly, that is put where a value stands; most parsers differ on some of it."""

WHOLE = (
    b"", b" ", b"\t\r", b"\x0b", b"\x0c ", b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"{", b"}", b"[]", b"{}",
    b"null", b"1", b'"a"', b"nul", b"[" * 100_000, b"]" * 10, b'{"a"', b'{"name":', b'{"name":"n"}',
    b'{"name":"n","transformations":{}}', b'{"name":"n","transformations":[]}', b"\x1f\x8b\x08\x00",
    b'{"name":"n","stream_graph":{}}', b'{"name":"n","stream_graph":[]}', b'{"name":"a"}{"name":"b"}',
    b'{"name":null,"transformations":[]}', b'\xef\xbb\xbf{"name":"n"}',
)  # fmt: skip


def hostile_lines(seed: int, count: int) -> Iterator[bytes]:
    """`count` lines without newlines; the same for the same seed. Half of them or so are planned."""
    drawn = random.Random(seed)
    names = ["a", "b", "a ", " a", "A", "caf\u00e9", "cafe\u0301", "a\0", "\u202ea", "n" * 3_000]
    for number in range(count):
        topology = json.loads(drawn.choice(_golden()))
        topology["name"] = drawn.choice(names) if drawn.random() < 0.2 else f"{topology.get('name')} {number}"
        names = names if drawn.random() < 0.9 else [*names[-50:], topology["name"]]
        yield _CHANGES[drawn.choices(range(len(_CHANGES)), _WEIGHTS)[0]](drawn, topology).replace(b"\n", b" ")


@cache
def _golden() -> tuple[str, ...]:
    found = []
    for name in ("shapes", "random", "edge_cases", "nexmark", "batch"):
        with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts = (json.dumps(json.loads(line)["topology"]) for line in lines)
            found += [text for text in texts if len(text) < LONGEST_GOLDEN]
    return tuple(found)


def _unchanged(_: random.Random, topology: dict[str, Any]) -> bytes:
    return _written(topology)


def _whole(drawn: random.Random, _: dict[str, Any]) -> bytes:
    return drawn.choice(WHOLE)


def _refused_settings(drawn: random.Random, topology: dict[str, Any]) -> bytes:
    config = topology.get("config", {})
    return _written({**topology, "config": {**config, **_SORT_REFUSED}})


def _bytes(drawn: random.Random, topology: dict[str, Any]) -> bytes:
    line = bytearray(_written(topology))
    for _ in range(drawn.randint(1, 3)):
        at = drawn.randrange(len(line))
        match drawn.randrange(4):
            case 0:
                line[at] = drawn.randrange(256)
            case 1:
                line[at:at] = bytes(drawn.randrange(256) for _ in range(drawn.randint(1, 4)))
            case 2:
                del line[at : at + drawn.randint(1, 8)]
            case _:
                del line[at:]
        if not line:
            break
    return bytes(line)


def _tokens(drawn: random.Random, topology: dict[str, Any]) -> bytes:
    tokens = _TOKENS.findall(_written(topology).decode())
    for _ in range(drawn.randint(1, 2)):
        at, other = drawn.randrange(len(tokens)), drawn.randrange(len(tokens))
        match drawn.randrange(4):
            case 0:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 1:
                tokens[at] = tokens[other]
            case 2:
                tokens.insert(at, tokens[other])
            case _:
                del tokens[at]
                tokens = tokens or ["{"]
    return "".join(tokens).encode()


def _values(drawn: random.Random, topology: dict[str, Any]) -> bytes:
    for _ in range(drawn.randint(1, 2)):
        holder, key = _place(drawn, topology)
        match drawn.randrange(4):
            case 0 if isinstance(holder, dict):
                holder[drawn.choice(["", "x", "name", "id", "kind", "config", "a" * 300, "\0"])] = holder[key]
            case 1:
                del holder[key]
            case _:
                holder[key] = drawn.choice(VALUES)
        if not topology:
            break
    return _written(topology)


def _raw_values(drawn: random.Random, topology: dict[str, Any]) -> bytes:
    holder, key = _place(drawn, topology)
    holder[key] = "\x01here\x01"
    return _written(topology).replace(b'"\\u0001here\\u0001"', drawn.choice(RAW))


def _keys_twice(drawn: random.Random, topology: dict[str, Any]) -> bytes:
    """A key of an object once more, right before the one that was there."""
    objects = [value for value in _all(topology) if isinstance(value, dict) and value]
    chosen = drawn.choice(objects)
    key = drawn.choice(list(chosen))
    marked = {f"\x01{k}" if k == key else k: v for k, v in chosen.items()}
    chosen.clear()
    chosen.update(marked)
    value = drawn.choice([1, "a", None, marked[f"\x01{key}"]])
    twice = f"{json.dumps(key)}:{json.dumps(value)},{json.dumps(key)}"
    return _written(topology).replace(json.dumps(f"\x01{key}").encode(), twice.encode())


def _all(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _all(inner)


def _place(drawn: random.Random, topology: dict[str, Any]) -> tuple[Any, Any]:
    """An object or list of the topology, and one of its keys or places."""
    holders = [value for value in _all(topology) if isinstance(value, dict | list) and value]
    holder = drawn.choice(holders)
    return holder, drawn.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))


def _written(topology: dict[str, Any]) -> bytes:
    return json.dumps(topology, separators=(",", ":")).encode()


_CHANGES = (_unchanged, _whole, _refused_settings, _bytes, _tokens, _values, _raw_values, _keys_twice)
_WEIGHTS = (30, 5, 6, 14, 12, 20, 7, 6)
