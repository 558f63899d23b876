"""What is found in the lines of a text before any of them is read as JSON."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plans.topology.parse_block import find_plain_lines

KEYS = ("names", "min_resources")


def configs(data: bytes) -> list[bytes]:
    found = find_plain_lines(data, KEYS)
    return [
        data[start:end]
        for start, end in zip(found.config_starts.tolist(), found.config_ends.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("line", "is_plain", "config"),
    [
        (b'{"name":"a"}', True, b""),
        (b' \t{"name":"a"}\r', True, b""),
        (b"", False, b""),
        (b" ", False, b""),
        (b"{", False, b""),
        (b"[{}]", False, b""),
        (b'{"name":"a"', False, b""),
        (b'{"name":null}', False, b""),
        (b'{"name":"nulls"}', False, b""),
        (b'{"name":"nul"}', True, b""),
        (b'{"name":"a\0"}', False, b""),
        (b'{"stream_graph":{}}', False, b""),
        (b'{"config":{}}', True, b"{}"),
        (b'{"config" \t: \r{"a":"null"} }', True, b'{"a":"null"}'),
        (b'{"config":{"a":"}\\"}{"},"name":"b"}', True, b'{"a":"}\\"}{"}'),
        (b'{"config":{"config":{"a":1}}}', True, b'{"config":{"a":1}}'),
        (b'{"name":"config","config":{"a":"b"}}', True, b'{"a":"b"}'),
        (b'{"config":{"a":"b"},"config":{}}', False, b'{"a":"b"}'),
        (b'{"config":[]}', False, b""),
        (b'{"config":', False, b""),
        (b'{"config":{"a":"b"', False, b""),
        (b'{"config":{"a":"b\\', False, b""),
        (b'{"config":{"a":"b"}', True, b'{"a":"b"}'),
    ],
)
def test_a_line_between_others(line: bytes, is_plain: bool, config: bytes):
    data = b'{"a":1}\n' + line + b'\n{"b":"2"}\n'
    found = find_plain_lines(data, KEYS)
    assert found.is_plain.tolist() == [True, is_plain, True]
    assert configs(data) == [b"", config, b""]
    assert data[found.starts[1] : found.ends[1]] == line


@pytest.mark.parametrize("again", [b'"config":1,', b'"config":{', b'"config":{},', b'"config" : {"'])
def test_a_long_line_of_configurations_is_looked_at_once(again):
    # Several times would take hours.
    found = find_plain_lines(b"{" + again * 1_000_000 + b"}\n{}\n", KEYS)
    assert found.is_plain.tolist() == [False, True]


def test_a_configuration_is_blanked_and_nothing_else():
    data = b'{"config":{"a":"b"},"name":"c"}\n'
    assert find_plain_lines(data, KEYS).text.tobytes() == b'{"config":{       },"name":"c"}\n'


def test_keys_are_found_with_their_quotes():
    assert find_plain_lines(b'{"names":[]}\n{"min":"min_resources"}\n', KEYS).keys == set(KEYS)
    assert find_plain_lines(b'{"name":"names of","own names":1}\n', KEYS).keys == set()
    assert find_plain_lines(b"", KEYS).keys == set()


texts = st.text(st.sampled_from('ab{}"\\:, \n\tnulcofig'))


@given(st.lists(st.tuples(st.dictionaries(texts, texts), texts, st.booleans())))
def test_configurations_of_right_lines(lines):
    written = [
        orjson.dumps({"name": name, "config": config} if first else {"config": config, "name": name})
        for config, name, first in lines
    ]
    data = b"".join(line + b"\n" for line in written)
    assert [orjson.loads(config) for config in configs(data)] == [config for config, *_ in lines]
