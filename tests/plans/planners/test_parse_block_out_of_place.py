"""Lines with something out of its place give the same rows and errors, read all at once or one by one."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plans.planners.lines_both_ways import (
    expected,
    few_are_many,
    found,
    random_lines,
    written,
    written_or_not,
)

pytestmark = pytest.mark.slow

_PIECES = [
    b'"',
    b"\\",
    b"\\u0041",
    b"\\ud800",
    b"\\ude00",
    b"\\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"\t",
    b"\r",
    b"\n",
    b"\x00",
    b"\x0b",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xe2\x82\xac",
    b"\xef\xbb\xbf",
    b"0",
    b"1",
    b"-1",
    b"-",
    b".0",
    b"1e3",
    b"99999999999",
    b"2147483648",
    b"32769",
    b"9223372036854775808",
    b"null",
    b"true",
    b"false",
    b"NaN",
    b"[]",
    b"{}",
    b'""',
    b'"id":1,',
    b'"name":"x",',
    b'"names":[],',
    b'"inputs":[],',
    b'"inputs":[1],',
    b'"tag":"t",',
    b'"managed_memory":{},',
    b'"slot_scope":[],',
    b'"parallelism":1,',
    b'"uid":null,',
    b'"unknown":1,',
    b'"config":{},',
    b'"config":{"a":"b"},',
    b'"config":',
    b'"config"',
    b'"stream_graph":{},',
    b"Infinity",
    b"//",
    b"'",
]
_VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    -2,
    1.0,
    1.5,
    32768,
    32769,
    2**31 - 1,
    2**31,
    2**63,
    10**30,
    "",
    "1",
    "x",
    'é\\"\u0007',
    "a" * 32,
    "A" * 31 + "g",
    "A" * 33,
    [],
    [1],
    [1, 1],
    [0],
    [1.0],
    ["a"],
    ["PYTHON"],
    ["PYTHON", "STATE_BACKEND"],
    ["PYTHON", "PYTHON"],
    ["a", None],
    [[]],
    {},
    {"OPERATOR": 1},
    {"OPERATOR": 0},
    {"PYTHON": 1},
    {"a": {}},
    {"execution.runtime-mode": "BATCH"},
    {"execution.runtime-mode": "automatic", "pipeline.name": "ü"},
    {"execution.runtime-mode": "FOO"},
    {"a": 1},
    {"b": "x", "a": "}{", "pipeline.name": '"config":'},
    {"config": "a"},
    {"cpu_cores": float("nan"), "task_heap_memory_bytes": 5},
    {"cpu_cores": 1e9, "task_heap_memory_bytes": 5},
    {"cpu_cores": 1, "task_heap_memory_bytes": 5},
    {"cpu_cores": 0.5, "task_heap_memory_bytes": 5, "managed_memory_bytes": 2**62},
    {"cpu_cores": 1.0},
    "source",
    "legacy_source",
    "sink",
    "union",
    "partition",
    "side_output",
    "select",
    "ALWAYS",
    "always",
    "hash",
    "BATCH",
]
_LINE_KEYS: tuple[str, ...] = (
    "name",
    "parallelism",
    "max_parallelism",
    "chaining",
    "config",
    "transformations",
    "stream_graph",
    "x",
)
_KEYS = (
    "id",
    "kind",
    "inputs",
    "name",
    "parallelism",
    "max_parallelism",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "co_location_group",
    "buffer_timeout",
    "chaining",
    "managed_memory",
    "slot_scope",
    "min_resources",
    "preferred_resources",
    "partitioner",
    "exchange_mode",
    "tag",
    "names",
    "y",
)


@pytest.fixture(autouse=True, scope="module")
def _few_are_many():
    with few_are_many():
        yield


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 3))
def test_bytes_out_of_place(seed: int, how: int):
    chance = random.Random(seed)
    lines = [bytearray(written(topology, how)) for topology in random_lines(seed, 12)]
    for line in lines:
        for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
            place = chance.randrange(len(line))
            line[place : place + chance.choice([0, 0, 1, 1, 2, 5])] = chance.choice(_PIECES)
    data = b"".join(bytes(line) + b"\n" for line in lines)
    assert found(data) == expected(data)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 3))
def test_values_out_of_place(seed: int, how: int):
    chance = random.Random(seed)
    topologies = random_lines(seed, 12)
    for topology in topologies:
        for _ in range(chance.choice([0, 1, 1, 2])):
            entry, keys = topology, _LINE_KEYS
            rows: Any = topology.get("transformations")
            if chance.random() < 0.8 and type(rows) is list and rows and type(rows[-1]) is dict:
                entry, keys = chance.choice(rows), _KEYS
            change = chance.random()
            if change < 0.2:
                entry.pop(chance.choice(list(entry)), None)
            elif change < 0.3 and "inputs" in entry:
                entry["inputs"] = [chance.randrange(len(rows) + 2) for _ in range(chance.randrange(4))]
            else:
                entry[chance.choice(keys)] = chance.choice(_VALUES)
    lines = [written_or_not(topology, how) for topology in topologies]
    data = b"".join(line + b"\n" for line in lines)
    assert found(data) == expected(data)


_SOURCE = b'"transformations":[{"id":1,"kind":"source"}]'


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b'{"name":"a",' + _SOURCE + b"}"] * 3
            + [b'{"name":"b","config":{"c":"d"},' + _SOURCE + b"}"]
            + [b"\n"] * 4
            + [b"{", b"}", b'"', b",", b"\0", b" ", b"\r", b'"config":{"a":"b"}', _SOURCE, b"{}", b"null"]
        ),
        max_size=20,
    )
)
def test_objects_out_of_place(texts: list[bytes]):
    data = b"".join(texts) + b"\n"
    assert found(data) == expected(data)
