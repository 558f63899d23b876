"""Lines that are read all at once give the rows and errors that the validation of single lines gives."""

import json
import random
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plans.columnar.topology import canonical_texts, lines_as_arrow, parse_block
from plans.columnar.topology.lines_batch import lines_batch
from plans.columnar.topology.parse_block import Block
from plans.topology.fingerprint import BLOCK
from plans.topology.parse_lines import ROWS_A_BATCH, parse_lines
from tests.reference.random_topologies import MODES, random_topology
from tests.topology.builders import simple, transformation
from tests.topology.test_read_topology_tables import every_setting

_FILE, _FIRST = "/a/file.jsonl", 7
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
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parse_block, "is_worth_compiling", lambda _: True)
        patched.setattr(canonical_texts, "is_worth_compiling", bool)
        patched.setattr(lines_as_arrow, "_LINES_AT_ONCE", (4, 1))
        yield


def found(data: bytes) -> list[dict[str, Any]]:
    """All rows that a block of these lines gives."""
    return _rows(parse_block.parse_block(Block(data, _FILE, _FIRST)))


def expected(data: bytes) -> list[dict[str, Any]]:
    """All rows that single lines give."""
    values = data.split(b"\n")[:-1]
    return _rows(list(parse_lines([lines_batch(values, _FILE, range(_FIRST, _FIRST + len(values)))])))


def _rows(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    for batch in batches:
        batch.validate(full=True)
    rows = pa.Table.from_batches(batches).to_pylist()
    return [row for row in rows if row["block_lines"] is None]


def plain(lines: Sequence[bytes]) -> int:
    """How many lines are read all at once."""
    return len(parse_block._plain_lines(lines, _FILE, 0)[1])


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


def test_every_setting_and_random_topologies_are_plain():
    resources = {"cpu_cores": 0.25, "task_heap_memory_bytes": 2**40}
    special = simple(
        "resources", config={"pipeline.name": "ü\n", "a": "\\"}, max_parallelism=5, chaining=False
    )
    special["transformations"][0] |= {
        "min_resources": resources,
        "preferred_resources": {**resources, "cpu_cores": 2},
    }
    special["transformations"][1] |= {"buffer_timeout": 0, "name": '\u20ac "\\/', "slot_scope": []}
    topologies = [every_setting(), special, *random_lines(0, 200)]
    for how in range(4):
        lines = [written(topology, how) for topology in topologies]
        data = b"".join(line + b"\n" for line in lines)
        assert found(data) == expected(data)
        assert plain(lines) > 190


def test_the_types_are_those_of_single_lines():
    data = orjson.dumps(every_setting()) + b"\n"
    batches = parse_block.parse_block(Block(data, _FILE, 0))
    assert batches[0].schema == next(parse_lines([lines_batch([data], _FILE, [0])])).schema


def test_long_topologies():
    rows = [
        transformation(1, "source"),
        *(transformation(i, inputs=[i - 1]) for i in range(2, ROWS_A_BATCH + 9)),
    ]
    long, middle = ({"name": f"n{n}", "transformations": rows[:n]} for n in (len(rows), BLOCK + 1))
    broken = {"name": "broken", "transformations": [*rows, rows[3]]}
    data = b"".join(orjson.dumps(t) + b"\n" for t in (simple("a"), long, middle, simple("b")))
    one_row, several = found(data), expected(data)
    for row in one_row:
        of_line = [other for other in several if other["ordinal"] == row["ordinal"]]
        assert row == of_line[0] | {
            "transformations": [t for other in of_line for t in other["transformations"]]
        }
    data = b"".join(orjson.dumps(t) + b"\n" for t in (broken, simple("b")))
    assert found(data) == expected(data)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"\x0c",
        b"null",
        b"[]",
        b"{}",
        b"{",
        b'{"name":"a"}',
        b"\xef\xbb\xbf{}",
        b'{"name":"a","name":"b","transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","id":1}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","parallelism":1,"parallelism":"x"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[]}',
        b'{"name":"a","transformations":[{}]}',
        b'{"n\\u0061me":"a","transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"so\\u0075rce"}]}',
        b'{"name":"\\ud83d\\ude00","transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"\\ud83d","transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","uid":"\\ude00"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","uid":"\\q"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","uid":"\xff"}]}',
        b'{"name":"a","transformations":[{"id":01,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1.0,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1e0,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","buffer_timeout":-0}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","buffer_timeout":-12}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","buffer_timeout":9999999999}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}]}{}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"},]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","inputs":[]}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","inputs":[1]}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"},{"id":2,"kind":"union","inputs":[1],"slot_scope":[]}]}',
        b'{"name":"a","config":{"a":"b","a":"c"},"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","config":{"a":"b"]},"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","config":{"a":["b"]},"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","config":{"{":"}"},"transformations":[{"id":1,"kind":"source","slot_scope":["]"]}]}',
        b'{"name":"a","config":' + b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"}",
        b'{"name":"a","stream_graph":{}}',
        # Arrow would take these for other lines than they are.
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}]} '
        b'{"name":"b","transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}]}{"name":"b","transformations":[{"id":1,"kind":"source"}]}'
        b'\n{"name":"c","transformations":[{"id":1,"kind":"source"}]}\0}\n{"name":"d"}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}\n,{"id":2,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}\n{"id":2,"kind":"source"}]}',
        b'{"name":"a","parallelism":null,"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","uid":null}]}',
        b'{"name":"a","transformations":[null]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","managed_memory":{}}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","managed_memory":{"OPERATOR":1,"OPERATOR":2}}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"},{"id":2,"kind":"union","inputs":[1],"managed_memory":{}}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","managed_memory":{}},{"id":2,"kind":"x","slot_scope":[]}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","min_resources":{},"preferred_resources":{}}]}',
        *(
            b'{"name":"a","transformations":[{"id":1,"kind":"source",'
            b'"min_resources":{"cpu_cores":%b,"task_heap_memory_bytes":%b},'
            b'"preferred_resources":{"cpu_cores":%b,"task_heap_memory_bytes":9}}]}' % numbers
            for numbers in [
                (b"NaN", b"1", b"NaN"),
                (b"1", b"1", b"NaN"),
                (b"-Infinity", b"1", b"1"),
                (b"1", b"1", b"Infinity"),
                (b"-0", b"1", b"1"),
                (b"1", b"-0", b"1"),
                (b"1", b"1.0", b"1"),
                (b"1e-400", b"1", b"1"),
                (b"1e400", b"1", b"1e400"),
                (b"999999999.99999999999", b"1", b"999999999.99999999999"),
                (b"0.1000000000000000055511151231257827", b"1", b"1E+2"),
                (b"123456789012345678901234567890", b"1", b"123456789012345678901234567890"),
                (b"5e-324", b"9", b"2.2250738585072011e-308"),
            ]
        ),
        # Configurations are read by themselves.
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"b":"1","a":"2","b":"3"}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config" : {"\\ud800":"1"} }',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":"\xff"}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":"\x01"}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":NaN}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":null}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":"b",}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":"b"}x}',
        b'{"name":"a","config":{"a":"'
        + b"\xe2\x82\xac" * 2**15
        + b'"},"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","config":{"a":"b"},"transformations":[{"id":1,"kind":"source","name":"'
        + b"\xe2\x82\xac" * 2**15
        + b'"}]}',
        b'{"name":"a","config":{"a":"b\xff"},"transformations":[{"id":1,"kind":"source"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":[]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":"config"}',
        b'{"name":"config","transformations":[{"id":1,"kind":"source","name":"\\"config"}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source","config":{"a":"b"}}]}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"x\\"config":{"a":"b"}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":"b"},"config":{}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"config":{"a":"b"},"c\\u006fnfig":{}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"c\\u006fnfig":{}}',
        b'{"name":"a","transformations":[{"id":1,"kind":"source"}],"c\\u006fnfig":{"a":"b"}}',
    ],
)
def test_special_lines(line: bytes):
    between = orjson.dumps(simple("between")) + b"\n"
    for data in (line + b"\n", between + line + b"\n" + between, (line + b"\n") * 2 + between):
        assert found(data) == expected(data)


@settings(max_examples=150, deadline=None)
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


@settings(max_examples=250, deadline=None)
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


@settings(max_examples=400, deadline=None)
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


def test_few_wrong_lines_leave_most_to_be_read_at_once(monkeypatch):
    monkeypatch.setattr(lines_as_arrow, "_LINES_AT_ONCE", (256, 16))
    lines = [orjson.dumps(simple(f"n{i}", config={"a": str(i)})) for i in range(600)]
    for place in (3, 300, 310):
        lines[place] = lines[place].replace(b'"kind"', b'"kynd"', 1)
    lines[500] = lines[500].replace(b'"n500"', b'"\xff"')
    data = b"".join(line + b"\n" for line in lines)
    assert found(data) == expected(data)
    assert plain(lines) >= 600 - 4 * 16
    assert plain([line.replace(b'"kind"', b'"kynd"', 1) for line in lines]) == 0


def written_or_not(topology: dict[str, Any], how: int) -> bytes:
    """As `written`; orjson knows no large integers."""
    return json.dumps(topology).encode() if how == 0 else written(topology, how)
