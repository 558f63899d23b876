"""Topologies without Spark: the same rows, choice of files and errors as Spark's readers."""

import bz2
import gzip
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.plan_topologies import read_topologies as read_with_spark
from plans.columnar.frames import to_arrow
from plans.columnar.read_topologies import read_topologies
from plans.columnar.topology import read_topology_files as files_module
from plans.columnar.topology.find_topology_files import find_topology_files
from plans.columnar.topology.topology_id import topology_id
from plans.errors import InputError
from tests.columnar.table_contents import frame_contents
from tests.topology.builders import golden_lines, simple, stream_edge, stream_graph, transformation
from tests.topology.test_read_topology_files import contents, fleet, reading
from tests.topology.test_validate_topology import graph_with, with_map, with_third

COLLIDING = ("orders-analytics", "k9dlmbsb!qp~ymO}")
"""Two names with one xxhash64."""


def assert_same(spark: SparkSession, given: Any) -> None:
    """Both read the same out of `given`."""
    found = read_topologies(given)
    with reading(read_with_spark(spark, given)) as expected:
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
        monkeypatch.setattr(files_module, "BLOCK_BYTES", block_bytes)
        assert frame_contents(read_topologies(path)) == whole


def test_a_topology_that_goes_on_over_several_batches(spark: SparkSession):
    n = 40_000
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


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory of files that Spark reads or passes over, each with a topology of its name."""
    names = """
        a.jsonl b.jsonl .hidden.jsonl _under.jsonl _a=b.jsonl c._COPYING_ _metadata.jsonl _metadata/m.jsonl
        _dir/d.jsonl .dir/e.jsonl d1/f.jsonl d1/d2/g.jsonl d1/_d2/h.jsonl d1/x{y}.jsonl d1/#%20;é.jsonl
        d[1]/h.jsonl e/1.jsonl e/2.jsonl e/a-b.jsonl k=1/p.jsonl
    """
    for name in names.split():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(simple(name)))
    (tmp_path / "e" / "empty.jsonl").touch()
    (tmp_path / "link").symlink_to(tmp_path / "d1")
    (tmp_path / "e" / "dangling").symlink_to(tmp_path / "nothing")
    return tmp_path


@pytest.mark.parametrize(
    "paths",
    [
        ["*"],
        ["a.jsonl", "*.jsonl", "file:/a.jsonl", "./e/../a.jsonl", "e//1.jsonl"],
        [".dir", "_dir", "_metadata", "k=1"],
        ["d[1]"],
        ["d\\[1\\]", "d?1?", "d1/x\\{y\\}.jsonl", "d1/#%20;é.jsonl"],
        ["{a,b}.jsonl", "e/[12].jsonl", "e/{}1.jsonl"],
        ["e/[^1].jsonl", "e/[]1].jsonl"],
        ["e/[!1].jsonl"],
        ["e/[1-9].jsonl", "e/a\\-b.jsonl"],
        ["{d1/f,e/{1,2}}.jsonl", "e/*{1,2}.jsonl"],
        ["*/f.jsonl", "*/*/g.jsonl"],
        ["link", "link/f.jsonl"],
        ["e", "e/1.jsonl"],
    ],
)
def test_the_same_files_are_read(spark: SparkSession, tree: Path, paths: list[str]):
    assert_same(spark, [p.replace("file:", f"file:{tree}") if ":" in p else f"{tree}/{p}" for p in paths])


@pytest.mark.parametrize(
    "paths",
    [
        ["nothing"],
        ["nothing*"],
        ["a.jsonl", "nothing"],
        ["d1/x{y}.jsonl"],
        ["**/g.jsonl"],
        ["e/1.jsonl/*"],
        ["e/dangling"],
        ["e/(1|2).jsonl"],
        ["e/]"],
        [".hidden.jsonl"],
        ["_metadata.jsonl", "c._COPYING_"],
        ["e/empty.jsonl"],
        [],
    ],
)
def test_the_same_errors_of_a_run(spark: SparkSession, tree: Path, paths: list[str]):
    given = [f"{tree}/{path}" for path in paths]
    error = _error(lambda: files_module.read_topology_files(given))
    if paths:
        assert error == _error(lambda: read_with_spark(spark, given))
    assert error.startswith(("cannot read file:/", "no topologies in", "no topology files given"))


def _error(read: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize("path", ["", "s3://bucket/x", "hdfs:///x", "a:b", "file:a"])
def test_paths_that_only_spark_could_read_are_named(path: str):
    assert f"cannot read {path}: " in _error(lambda: read_topologies(path))


@pytest.mark.parametrize("glob", ["e/[", "e/{1,2", "e/[]", "e/1\\", "e/[[1]"])
def test_a_broken_glob_is_an_error(spark: SparkSession, tree: Path, glob: str):
    assert "it is no glob" in _error(lambda: read_topologies(f"{tree}/{glob}"))
    _error(lambda: read_with_spark(spark, f"{tree}/{glob}"))


def test_a_link_to_a_directory_above_ends(tree: Path):
    (tree / "e" / "loop").symlink_to(tree / "e")
    assert [Path(f).name for f in find_topology_files([f"{tree}/e"])] == ["1.jsonl", "2.jsonl", "a-b.jsonl"]


LINES = b"\n".join([orjson.dumps(simple("a")), b"", b"no", orjson.dumps(simple("b"))])
GZIP = gzip.compress(LINES)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.gz", GZIP),
        ("x.GZ", GZIP),
        ("two.gz", GZIP + gzip.compress(b"\n{}\n")),
        ("x.bz2", bz2.compress(LINES) + bz2.compress(b"\n[]")),
        ("x.zst", pa.compress(LINES, "zstd").to_pybytes()),
        ("bom.jsonl", b"\xef\xbb\xbf" + LINES + b"\n\xef\xbb\xbf{}"),
        ("bom.gz", gzip.compress(b"\xef\xbb\xbf" + LINES)),
        ("crlf.jsonl", LINES.replace(b"\n", b"\r\n") + b"\r" + LINES),
    ],
)
def test_files_as_they_come(spark: SparkSession, tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    assert_same(spark, tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        GZIP[: len(GZIP) // 2],
        GZIP[:-8],
        GZIP[:5],
        GZIP[:-8] + bytes(8),
        GZIP + bytes(512),
        GZIP + b"behind it",
        b"this is no gzip file at all\n" * 9,
        gzip.compress(b""),
    ],
)
def test_a_corrupt_gzip_is_the_same_error(spark: SparkSession, tmp_path: Path, data: bytes):
    path = str(tmp_path / "bad.jsonl.gz")
    Path(path).write_bytes(data)
    assert _error(lambda: read_topologies(path)) == _error(lambda: read_with_spark(spark, path))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.deflate", zlib.compress(LINES)),
        ("x.lz4", b"x"),
        ("x.snappy", b"x"),
        ("x.bz2", bz2.compress(LINES)[:-9]),
        ("x.zst", b"no zst"),
    ],
)
def test_other_compressed_files_that_cannot_be_read(tmp_path: Path, name: str, data: bytes):
    path = tmp_path / name
    path.write_bytes(data)
    assert f"cannot read {path}: " in _error(lambda: read_topologies(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    path.chmod(0)
    assert f"cannot read {path}: Permission denied" in _error(lambda: read_topologies(path))


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
