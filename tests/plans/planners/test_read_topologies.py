"""Topologies without Spark: the same rows, choice of files and errors as Spark's readers."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from penstock.engine.planning.plan_on_spark import read_topologies as read_with_spark
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.topology import unpacked_texts
from penstock.plans.topology.on_spark.topologies_of_lines import (
    GivenLines,
    TopologyTables,
    parsed_given_lines,
)
from penstock.plans.topology.topologies_of_lines import topology_id
from tests.plans.planners.table_contents import frame_contents
from tests.plans.topology.builders import golden_lines, simple, stream_edge, stream_graph, transformation
from tests.plans.topology.test_read_topology_files import contents, fleet, reading
from tests.plans.topology.test_validate_topology import graph_with, with_map, with_third

COLLIDING = ("orders-analytics", "k9dlmbsb!qp~ymO}")
"""Two names with one xxhash64."""


def assert_same(spark: SparkSession, given: Any, **options: Any) -> None:
    """Both read the same out of `given`."""
    found = read_topologies(given, **options)
    read = read_with_spark(spark, given, PlanOptions(**options))
    read = parsed_given_lines(read) if isinstance(read, GivenLines) else read
    assert isinstance(read, TopologyTables)
    with reading(read) as expected:
        assert found.inputs == expected.inputs
        assert frame_contents(found) == contents(expected)


def broken_lines() -> list[bytes]:
    """Lines that are wrong in every way there is, right ones and blank ones between them."""
    unbounded = simple("unbounded", config={"execution.runtime-mode": "batch"})
    unbounded["transformations"][0]["kind"] = "legacy_source"
    topologies: list[Any] = [
        simple("right"),
        simple(""),
        simple(None),
        simple(7),
        [1],
        None,
        {},
        {"name": "nothing"},
        {"name": "both", "transformations": [], "stream_graph": {}},
        {"name": "empty", "transformations": []},
        {"name": "no list", "transformations": {"a": 1}},
        {"name": "odd entries", "transformations": [1, None, {"id": 1}, {"id": 1, "kind": "source"}]},
        simple("named", nam="x"),
        simple("options", config={"execution.runtime-mode": "FOO", "pipeline.operator-chaining": "maybe"}),
        simple("bare", config={"a": 1, "b": True, "c": None}),
        simple("hints", max_parallelism=0, chaining="no", parallelism="4"),
        with_map(inputs=[2]),
        with_map(inputs=[3]),
        with_map(inputs=[77], uid_hash="xyz", min_resources={"cpu_cores": -1}),
        with_map(kind="one_inputs"),
        with_third(id=2),
        graph_with(nodes=[], edges=[stream_edge(1, 2)]),
        graph_with(sources=[1, 2]),
        stream_graph("é|:\u2028 graph"),
        simple('quoted "name"\n\x1f'),
        unbounded,
        simple("right"),
        {"name": "right", "transformations": [transformation(1, "source")]},
        simple(COLLIDING[1]),
        simple(COLLIDING[0]),
        simple("right", parallelism=0),
    ]
    lines = [orjson.dumps(topology) for topology in topologies]
    lines += [
        b"{",
        b"{} {}",
        b'{"name": "\xff"}',
        b"\x1f\x8b\x08",
        b"\xef\xbb\xbf{}",
        b"nan",
        b"  ",
        b"",
        b"\t\r",
    ]
    lines.insert(3, b"")
    lines[5] += b"\r"
    return lines


def test_the_colliding_names_collide():
    assert topology_id(COLLIDING[0]) == topology_id(COLLIDING[1])


@pytest.mark.parametrize("last_newline", [b"", b"\n"])
def test_lines_that_are_wrong_in_every_way(spark: SparkSession, tmp_path: Path, last_newline: bytes):
    path = tmp_path / "all of them.jsonl"
    path.write_bytes(b"\n".join(broken_lines()) + last_newline)
    assert_same(spark, path)
    kinds = set(read_topologies(path).rejected["error"])
    assert {"DuplicateTopologyName", "TopologyIdCollision", "NotJson", "IllegalStateException"} <= kinds


def test_names_that_come_again_in_other_files(spark: SparkSession, tmp_path: Path):
    """The first is that of the file whose name is smallest as UTF-8, whatever order the paths have."""
    for name in ("b", "a", "é", "\U0001f600", "\uffee", "B"):
        lines = [orjson.dumps(simple(n, parallelism=len(name))) for n in ("same", f"own {name}", "same")]
        (tmp_path / f"{name}.jsonl").write_bytes(b"\n".join(lines))
    found = [str(tmp_path / f"{name}.jsonl") for name in ("é", "b", "\U0001f600", "\uffee", "a", "B", "b")]
    assert_same(spark, found)


def test_a_fleet_and_the_golden_topologies(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "fleet with space.jsonl"
    golden = [orjson.dumps(line["topology"]) for line in golden_lines()]
    path.write_bytes(b"\n".join([*fleet(), *golden]) + b"\n")
    assert_same(spark, path)
    whole = frame_contents(read_topologies(path))
    for block_bytes in (1_000, 100_000):
        monkeypatch.setattr(unpacked_texts, "BLOCK_BYTES", block_bytes)
        assert frame_contents(read_topologies(path)) == whole


def test_a_topology_that_goes_on_over_several_batches(spark: SparkSession):
    n = 20_000
    chain = [transformation(1, "source")] + [transformation(i, inputs=[i - 1]) for i in range(2, n + 1)]
    large = {"name": "chain", "transformations": chain}
    given = [simple("s"), large, large, simple("t")]
    assert_same(spark, given)
    assert len(read_topologies(given).transformations) == n + 6


def test_objects(spark: SparkSession):
    given: list[Any] = [
        simple("a"),
        {"name": "set", "transformations": {1, 2}},
        "{",
        {1: 2},
        simple("a"),
        orjson.dumps(stream_graph("g")),
        "\ud800",
        orjson.dumps(simple("a")).decode(),
        b"",
        *(line["topology"] for line in golden_lines(5)),
    ]
    assert_same(spark, given)
    assert_same(spark, [])


def test_given_tables_as_frames_and_arrow():
    given = read_topologies([simple("a"), simple("b", config={"x": "1"})])
    frames = (given.topologies, given.transformations)
    arrow = [to_arrow(frame, name) for frame, name in zip(frames, given._fields, strict=False)]
    expected = frame_contents(given)
    assert frame_contents(read_topologies(frames)) == expected
    assert frame_contents(read_topologies(arrow)) == expected
    few = (frames[0].select("name"), frames[1].select("topology_id", "id", "kind", "inputs"))
    rows = frame_contents(read_topologies(few))["transformations"]
    assert [json.loads(row)["name"] for row in rows] == [""] * 6
