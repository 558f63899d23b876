"""Lines that are read all at once give the rows and errors that the validation of single lines gives."""

from typing import Any

import orjson
import pytest

from penstock.plans.topology import parse_block
from penstock.plans.topology import parse_block as lines_as_arrow
from penstock.plans.topology.fingerprint import BLOCK
from penstock.plans.topology.lines_batch import lines_batch
from penstock.plans.topology.parse_block import LineBlock
from penstock.plans.topology.parse_lines import ROWS_A_BATCH, parse_lines
from tests.plans.planners.lines_both_ways import (
    FILE,
    expected,
    few_are_many,
    found,
    plain,
    random_lines,
    written,
)
from tests.plans.topology.builders import every_setting, simple, transformation


@pytest.fixture(autouse=True, scope="module")
def _few_are_many():
    with few_are_many():
        yield


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
        others = [line for line in lines if b'"pre_' not in line and b'"post_' not in line]  # steps of sinks
        assert plain(others) > 0.95 * len(others)


def sink(**keys):
    line = simple(
        "sinks", transformations=[transformation(1, "source"), transformation(2, "sink", inputs=[1])]
    )
    line["transformations"][1] |= keys
    return line


RIGHT_SINKS: list[dict[str, Any]] = [
    {"writer": {}},
    {"writer": {"supports_concurrent_execution_attempts": False}, "uid": "u"},
    {"writer": {"uid_hash": "0a" * 16}, "committer": {"uid_hash": "0B" * 16}, "global_committer": True},
]
WRONG_SINKS: list[dict[str, Any]] = [
    {"committer": {}},
    {"writer": {}, "global_committer": False},
    {"writer": {"uid_hash": "0a"}},
    {"writer": {}, "managed_memory": {}},
    {"writer": {}, "uid_hash": "0a" * 16},
    {"writer": {}, "kind": "one_input"},
]


def test_sinks_that_write_are_plain():
    right, wrong = ([orjson.dumps(sink(**keys)) for keys in cases] for cases in (RIGHT_SINKS, WRONG_SINKS))
    assert (plain(right), plain(wrong)) == (len(right), 0)
    data = b"".join(line + b"\n" for line in [*right, *wrong])
    assert found(data) == expected(data)


def test_the_types_are_those_of_single_lines():
    data = orjson.dumps(every_setting()) + b"\n"
    batches = parse_block.parse_block(LineBlock(data, FILE, 0))
    assert batches[0].schema == next(parse_lines([lines_batch([data], FILE, [0])])).schema


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize("key", lines_as_arrow.RARE_KEYS)
def test_rare_keys_in_one_line_of_several(key: str):
    value = ["a"] if key == "names" else {"cpu_cores": 1, "task_heap_memory_bytes": 2**40}
    rare = orjson.dumps(simple("rare")).replace(
        b'"kind"', b'"%s":%s,"kind"' % (key.encode(), orjson.dumps(value)), 1
    )
    escaped = rare.replace(b'"rare"', b'"escaped"').replace(
        key.encode(), b"\\u00%02x" % ord(key[0]) + key[1:].encode()
    )
    others = [orjson.dumps(simple(f"n{i}")) for i in range(9)]
    for lines in ([*others, rare], [rare, escaped, *others], [*others, escaped]):
        data = b"".join(line + b"\n" for line in lines)
        assert found(data) == expected(data)
    assert plain(others) == len(others)


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
