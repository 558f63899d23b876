"""Lines are cut out of a stream in bounded memory; those that are too long are passed over."""

import gzip
import tracemalloc
from itertools import repeat

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.topology.read_topology_files import LongLine, whole_lines
from tests.plans.planners.test_read_topologies import assert_same
from tests.plans.topology.builders import simple


def expected(data: bytes, longest: int) -> list[bytes | int]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line if len(line) <= longest else len(line) for line in lines]


def found(texts, longest: int) -> list[bytes | int]:
    rows: list[bytes | int] = []
    for piece in whole_lines(texts, longest):
        if isinstance(piece, LongLine):
            rows.append(piece.size_bytes)
        else:
            assert piece.endswith(b"\n")
            rows += piece.split(b"\n")[:-1]
    return rows


@given(
    st.text("ab\n", max_size=60).map(str.encode), st.integers(0, 9), st.lists(st.integers(1, 9), min_size=1)
)
def test_lines_are_the_same_however_the_stream_is_cut(data, longest, cuts):
    texts, rest = [], data
    while rest:
        for size in cuts:
            texts.append(rest[:size])
            rest = rest[size:]
    assert found([text for text in texts if text], longest) == expected(data, longest)


def test_an_endless_line_takes_no_more_memory_than_is_allowed():
    text = bytes(2**20)
    tracemalloc.start()
    try:
        assert found(repeat(text, 2_000), 4 * 2**20) == [2_000 * 2**20]
        assert tracemalloc.get_traced_memory()[1] < 6 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_too_long_is_rejected_and_the_others_are_read(spark, tmp_path, packed):
    """The same rows with and without Spark."""
    lines = [orjson.dumps(simple("a")), b"", b"x" * 1_001, b" " * 1_001, orjson.dumps(simple("b"))]
    data = b"\n".join(lines)
    path = tmp_path / f"t.jsonl{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(data) if packed else data)
    tables = read_topologies(path, max_line_bytes=1_000)
    assert sorted(tables.topologies["name"]) == ["a", "b"]
    assert tables.rejected["source_line"].to_list() == [3, 4]
    assert tables.rejected["error"].to_list() == ["LineTooLong"] * 2
    message = tables.rejected["message"][0]
    assert "1,001 bytes" in message
    assert "1,000 bytes at most" in message
    assert "--max-line-size" in message
    assert tables.inputs == 4
    assert_same(spark, str(path), max_line_bytes=1_000)
