"""FIFOs are read as files are, and a path that is there is that path, whatever is in its name."""

import gzip
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
import penstock.plans.topology.on_spark.read_topology_files as on_spark
from penstock.engine.planning.plan_on_spark import read_topologies
from penstock.plans.errors import InputError
from penstock.plans.topology import find_topology_files
from penstock.plans.topology.find_topology_files import examine_paths, hadoop_path
from penstock.plans.topology.on_spark.topologies_of_lines import TopologyTables
from penstock.plans.topology.read_topology_files import lines_of_pipes, read_topology_files
from tests.plans.topology.builders import simple

NAMES = [f"t{i}" for i in range(50)]
TEXT = "\n".join(json.dumps(simple(name)) for name in NAMES).encode()
WEIRD = ("a*[b.jsonl", "a[1].jsonl", "{a,b}.jsonl", "a?.jsonl", "back\\slash.jsonl", "[.jsonl")


@contextmanager
def fifo(path: Path, content: bytes) -> Iterator[Path]:
    """A FIFO that holds `content` for one reader."""
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(content), daemon=True)
    writer.start()
    yield path
    writer.join(timeout=20)
    assert not writer.is_alive()


def by_columns(_: SparkSession, *paths: object) -> list[str]:
    return sorted(read_topology_files([str(path) for path in paths]).topologies["name"])


def by_spark(spark: SparkSession, *paths: object) -> list[str]:
    names = [str(path) for path in paths]
    tables = on_spark.read_topology_files(spark, names, piped=lines_of_pipes(examine_paths(names).pipes))
    try:
        return sorted(row["name"] for row in tables.topologies.collect())
    finally:
        for kept in tables.persisted:
            kept.unpersist()


reads = pytest.mark.parametrize("read", [by_columns, by_spark])
Read = Callable[..., list[str]]


@reads
@pytest.mark.parametrize(("name", "pack"), [("pipe", bytes), ("pipe.jsonl.gz", gzip.compress)])
def test_a_fifo_is_read(
    spark: SparkSession, tmp_path: Path, read: Read, name: str, pack: Callable[[bytes], bytes]
):
    with fifo(tmp_path / name, pack(TEXT)) as path:
        assert read(spark, path) == sorted(NAMES)


@reads
def test_a_fifo_beside_files_and_twice(spark: SparkSession, tmp_path: Path, read: Read):
    (tmp_path / "more.jsonl").write_text(json.dumps(simple("more")))
    with fifo(tmp_path / "pipe", TEXT) as path:
        found = read(spark, path, f"{tmp_path}/./pipe", tmp_path / "more.jsonl")
    assert found == sorted([*NAMES, "more"])


def test_what_a_shell_puts_in_the_place_of_a_process_is_read():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(TEXT)
    assert by_columns(None, f"/dev/fd/{reading}") == sorted(NAMES)  # type: ignore[arg-type]
    os.close(reading)


def test_lines_of_a_fifo_keep_their_numbers(spark: SparkSession, tmp_path: Path):
    with fifo(tmp_path / "pipe", b"\n" + TEXT + b"\n{") as path:
        tables = on_spark.read_topology_files(spark, [str(path)], piped=lines_of_pipes([str(path)]))
    rows = {row["name"]: (row["source_file"], row["source_line"]) for row in tables.topologies.collect()}
    assert rows == {name: (str(path), number) for number, name in enumerate(NAMES, 2)}
    assert [row["source_line"] for row in tables.rejected.collect()] == [len(NAMES) + 2]
    for kept in tables.persisted:
        kept.unpersist()


@reads
def test_a_fifo_without_lines_holds_no_topologies(spark: SparkSession, tmp_path: Path, read: Read):
    with fifo(tmp_path / "pipe", b"\n") as path, pytest.raises(InputError, match=r"no topologies in .*pipe"):
        read(spark, path)


def test_a_fifo_and_links_without_a_file_in_a_directory_are_left_alone(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a.jsonl").write_bytes(TEXT)
    assert by_columns(None, tmp_path) == sorted(NAMES)  # type: ignore[arg-type]


@reads
def test_a_path_that_is_there_is_no_glob(spark: SparkSession, tmp_path: Path, read: Read):
    for number, name in enumerate(WEIRD):
        (tmp_path / name).write_text(json.dumps(simple(f"w{number}")))
    for name in ("a1.jsonl", "ab.jsonl", "a.jsonl"):
        (tmp_path / name).write_text(json.dumps(simple(name)))
    assert read(spark, *(tmp_path / name for name in WEIRD)) == [f"w{number}" for number in range(len(WEIRD))]
    assert read(spark, tmp_path / "a[1b].jsonl") == ["a1.jsonl", "ab.jsonl"]
    assert read(spark, tmp_path / "a[1].jsonl", f"{tmp_path}/a\\*\\[b.jsonl") == ["w0", "w1"]


@reads
def test_a_glob_that_matches_nothing_is_no_path(spark: SparkSession, tmp_path: Path, read: Read):
    with pytest.raises(InputError, match="no such file or directory"):
        read(spark, tmp_path / "no*.jsonl")


def test_paths_are_examined_once_on_their_way_into_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "tables" / "transformations").mkdir(parents=True)
    (tmp_path / "tables" / "transformations" / "0.parquet").touch()
    (tmp_path / "a.jsonl").write_bytes(TEXT)
    paths = [str(tmp_path / name) for name in ("pipe", "tables", "a.jsonl", "missing")]
    examined = examine_paths([*paths, "-", "s3://b/t.jsonl", "", f"{tmp_path}/\0"])
    assert examined.tables == [paths[1]]
    assert examine_paths([str(tmp_path / "tab*")]) == examine_paths([paths[1]])
    assert examine_paths([str(tmp_path / "*.jsonl")]).paths == [str(tmp_path / "*.jsonl")]
    assert (examined.pipes, examined.elsewhere) == ([paths[0], "-"], ["s3://b/t.jsonl", ""])
    with pytest.raises(InputError, match="cannot be read together with other inputs"):
        assert examined.folder

    looked_at: list[str] = []
    holds_tables = find_topology_files.holds_tables

    def look(path: str) -> bool:
        looked_at.append(path)
        return holds_tables(path)

    monkeypatch.setattr(find_topology_files, "holds_tables", look)
    assert penstock.plan(paths[2]).planned == len(NAMES)
    assert looked_at == [paths[2]]


@pytest.mark.parametrize("name", ["a:b.jsonl", "é:b.jsonl", "1a:b.jsonl"])
def test_what_precedes_a_colon_is_no_scheme_of_a_local_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"cannot read file:.*{name}: no such file or directory"):
        read_topologies(spark, [name])
    Path(name).write_bytes(TEXT)
    tables = read_topologies(spark, [name])
    assert isinstance(tables, TopologyTables)
    assert tables.inputs == len(NAMES)
    for kept in tables.persisted:
        kept.unpersist()


def test_paths_of_other_file_systems_are_hadoops():
    for path in ("s3a://bucket/a", "file:///a", "hdfs:/a", "-", "./a:b", "a/b:c"):
        assert hadoop_path(path) == path
