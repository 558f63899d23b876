"""Files without Spark: the same choice of files, the same lines and the same errors as Spark's reader."""

import bz2
import errno
import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.engine.planning.plan_on_spark import read_topologies as read_with_spark
from penstock.plans.errors import InputError
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.topology.find_topology_files import find_topology_files
from penstock.plans.topology.on_spark.topologies_of_lines import TopologyTables
from penstock.plans.topology.read_topology_files import read_topology_files
from tests.plans.planners.test_read_topologies import assert_same
from tests.plans.topology.builders import simple
from tests.plans.topology.packed_blocks import packed_blocks
from tests.plans.topology.test_read_topology_files import reading


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
        ["d1/x{y}.jsonl"],
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
    given = [p.replace("file:", f"file:{tree}") if ":" in p else f"{tree}/{p}" for p in paths]
    columns = ("name", "source_file", "source_line")
    read = read_with_spark(spark, given)
    assert isinstance(read, TopologyTables)
    with reading(read) as expected:
        rows = sorted(map(tuple, expected.topologies.select(*columns).collect()))
    assert sorted(read_topologies(given).topologies.select(columns).rows()) == rows


@pytest.mark.parametrize(
    "paths",
    [
        ["nothing"],
        ["nothing*"],
        ["a.jsonl", "nothing"],
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
    error = _error(lambda: read_topology_files(given))
    if paths:
        assert error == _error(lambda: read_with_spark(spark, given))
    assert error.startswith(("cannot read file:/", "no topologies in", "no topology files given"))


def _error(read: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize("path", ["", "s3://bucket/x", "hdfs:///x", "file:a"])
def test_paths_that_only_spark_could_read_are_named(path: str):
    assert f"cannot read {path}: " in _error(lambda: read_topologies(path))


@pytest.mark.parametrize("glob", ["e/[", "e/{1,2", "e/[]", "e/1\\", "e/[[1]"])
def test_a_broken_glob_is_an_error(spark: SparkSession, tree: Path, glob: str):
    assert "it is not a glob" in _error(lambda: read_topologies(f"{tree}/{glob}"))
    _error(lambda: read_with_spark(spark, f"{tree}/{glob}"))


def test_a_link_to_a_directory_above_ends(tree: Path):
    (tree / "e" / "loop").symlink_to(tree / "e")
    assert [Path(f).name for f in find_topology_files([f"{tree}/e"])] == ["1.jsonl", "2.jsonl", "a-b.jsonl"]


LINES = b"\n".join([orjson.dumps(simple("a")), b"", b"no", orjson.dumps(simple("b"))])
GZIP = gzip.compress(LINES)


def lines_of(name: str) -> bytes:
    return LINES.replace(b'"a"', f'"{name} a"'.encode()).replace(b'"b"', f'"{name} b"'.encode())


def test_files_as_they_come(spark: SparkSession, tmp_path: Path):
    mark = b"\xef\xbb\xbf"
    files = {
        "x.gz": gzip.compress(lines_of("gz")),
        "x.GZ": gzip.compress(lines_of("GZ")),
        "two.gz": gzip.compress(lines_of("two")) + gzip.compress(b"\n{}\n"),
        "x.bz2": bz2.compress(lines_of("bz2")) + bz2.compress(b"\n[]"),
        "x.zst": pa.compress(lines_of("zst"), "zstd").to_pybytes(),
        "x.snappy": packed_blocks(lines_of("snappy"), ".snappy"),
        "mark.jsonl": mark + lines_of("mark") + b"\n" + mark + b"{}",
        "mark.gz": gzip.compress(mark + lines_of("packed mark")),
        "returns.jsonl": lines_of("crlf").replace(b"\n", b"\r\n") + b"\r" + lines_of("cr"),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert_same(spark, tmp_path)
    names = set(read_topologies(str(tmp_path)).topologies["name"])
    assert {f"{name} {one}" for name in ("gz", "GZ", "two", "bz2", "zst", "snappy") for one in "ab"} < names


@pytest.mark.parametrize(
    "data",
    [
        GZIP[:-8],
        GZIP + b"after it",
        b"this is no gzip file at all\n" * 9,
    ],
)
def test_a_corrupt_gzip_is_the_same_error(spark: SparkSession, tmp_path: Path, data: bytes):
    path = str(tmp_path / "bad.jsonl.gz")
    Path(path).write_bytes(data)
    assert _error(lambda: read_topologies(path)) == _error(lambda: read_with_spark(spark, path))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.deflate", zlib.compress(LINES)[:-1]),
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


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The system's refusal is made up: the tests may run as root, who may read everything."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)

    def refuse(file: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)

    monkeypatch.setattr("penstock.plans.topology.read_topology_files.pa.OSFile", refuse)
    assert f"cannot read {path}: Permission denied" in _error(lambda: read_topologies(path))
