"""Topology files on Spark: nothing is lost, every bad line has its number, however Spark splits the input."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from penstock.plans.errors import InputError
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.topology.job_defaults import NO_DEFAULTS
from penstock.plans.topology.on_spark.read_topology_files import read_topology_files
from penstock.plans.topology.on_spark.topologies_of_lines import (
    TopologyTables,
    given_objects,
    parsed_given_lines,
)
from tests.plans.topology.builders import golden_lines, simple, stream_graph, transformation

TABLE_NAMES = ("topologies", "transformations", "stream_nodes", "stream_edges", "job_settings", "rejected")


@contextmanager
def reading(tables: TopologyTables) -> Iterator[TopologyTables]:
    try:
        yield tables
    finally:
        for kept in tables.persisted:
            kept.unpersist(blocking=True)


def parsed_objects(spark: SparkSession, topologies: list[Any]) -> TopologyTables:
    return parsed_given_lines(given_objects(spark, topologies, NO_DEFAULTS))


def contents(tables: TopologyTables, without: tuple[str, ...] = ()) -> dict[str, list[Any]]:
    """Every row of every table, in an order of its own."""
    return {
        name: sorted(
            json.dumps(
                {k: v for k, v in row.asDict(recursive=True).items() if k not in without}, sort_keys=True
            )
            for row in getattr(tables, name).collect()
        )
        for name in TABLE_NAMES
    }


def fleet() -> list[bytes]:
    """1,000 lines, 100 of them broken in five ways; blank lines and one CRLF line among them."""
    lines = []
    for i in range(1000):
        topology = simple(f"job-{i:04d}", parallelism=1 + i % 7)
        if i % 10 == 3:
            match i // 10 % 5:
                case 0:
                    lines.append(b'{"name": "cut off')
                    continue
                case 1:
                    lines.append(b"[1, 2]")
                    continue
                case 2:
                    topology["transformations"][1]["inputs"] = [77]
                case 3:
                    topology["transformations"][1]["uuid"] = "x"
                    topology["parallelism"] = 0
                case 4:
                    del topology["name"]
        lines.append(orjson.dumps(topology))
    lines[500] += b"\r"
    lines.insert(250, b"")
    lines.insert(750, b"   ")
    return lines


def broken_lines(lines: list[bytes]) -> list[int]:
    broken = []
    for number, line in enumerate(lines, 1):
        try:
            topology = json.loads(line) if line.strip() else simple()
        except json.JSONDecodeError:
            topology = []
        if (
            not isinstance(topology, dict)
            or "name" not in topology
            or topology.get("parallelism") == 0
            or topology["transformations"][1]["inputs"] == [77]
        ):
            broken.append(number)
    return broken


@pytest.mark.parametrize("max_partition_bytes", ["128m", "70k", "9k"])
def test_a_fleet_with_broken_lines(spark: SparkSession, tmp_path: Path, max_partition_bytes: str):
    lines = fleet()
    path = tmp_path / "fleet with space.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = str(spark.conf.get("spark.sql.files.maxPartitionBytes"))
    spark.conf.set("spark.sql.files.maxPartitionBytes", max_partition_bytes)
    try:
        with reading(read_topology_files(spark, [str(path)])) as tables:
            assert tables.inputs == 1000
            assert tables.topologies.count() == 900
            assert tables.transformations.count() == 2700
            assert tables.job_settings.count() == 900
            rejected = tables.rejected.collect()
            assert sorted(r.source_line for r in rejected) == broken_lines(lines)
            assert {r.source_file for r in rejected} == {str(path)}
            assert {r.error_stage for r in rejected} == {"input"}
            for row in tables.topologies.select("name", "source_line").collect():
                assert json.loads(lines[row.source_line - 1])["name"] == row.name
            several = next(r for r in rejected if len(r.errors) == 2)
            assert several.message.count("\n") == 1
            not_json = next(r for r in rejected if r.error == "NotJson")
            assert not_json.message.startswith(f"line {not_json.source_line} of {path}: found ")
            assert not_json.name is None
            assert not_json.topology_id is None
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)


def test_files_directories_globs_and_gzip(spark: SparkSession, tmp_path: Path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "a.jsonl").write_bytes(orjson.dumps(simple("a")))
    (tmp_path / "deep" / "er" / "b.jsonl").write_bytes(b"\n" + orjson.dumps(simple("b")) + b"\n{}\n")
    with gzip.open(tmp_path / "deep" / "c.jsonl.gz", "wb") as out:
        out.write(b"\n".join([orjson.dumps(simple("c")), b"nonsense", orjson.dumps(stream_graph("d"))]))
    paths = [str(tmp_path / "a.json*"), str(tmp_path / "deep")]
    with reading(read_topology_files(spark, paths)) as tables:
        assert tables.inputs == 6
        assert {r.name: r.source_line for r in tables.topologies.collect()} == {
            "a": 1,
            "b": 2,
            "c": 1,
            "d": 3,
        }
        found = {(r.source_file, r.source_line, r.error) for r in tables.rejected.collect()}
        assert found == {
            (str(tmp_path / "deep" / "er" / "b.jsonl"), 3, "MissingKey"),
            (str(tmp_path / "deep" / "c.jsonl.gz"), 2, "NotJson"),
        }
        for name in TABLE_NAMES:
            table = getattr(tables, name)
            assert table.schema.simpleString() == spark_schema(name).simpleString()


def test_duplicate_names_keep_the_first_by_file_and_line(spark: SparkSession, tmp_path: Path):
    two = simple("same")
    two["transformations"] = two["transformations"][:2]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([orjson.dumps(simple("x")), orjson.dumps(simple("same"))]))
    (tmp_path / "b.jsonl").write_bytes(b"\n".join([orjson.dumps(two), orjson.dumps(two)]))
    with reading(read_topology_files(spark, [str(tmp_path)])) as tables:
        assert tables.inputs == 4
        assert tables.topologies.count() == tables.job_settings.count() == 2
        assert tables.transformations.count() == 6
        rejected = sorted(tables.rejected.collect(), key=lambda r: r.source_line)
        assert [(r.source_line, r.error, r.name) for r in rejected] == [
            (1, "DuplicateTopologyName", "same"),
            (2, "DuplicateTopologyName", "same"),
        ]
        assert f"line 2 of {tmp_path / 'a.jsonl'}" in rejected[0].message


def test_what_flink_refuses_for_its_settings(spark: SparkSession):
    unbounded = simple("unbounded", config={"execution.runtime-mode": "batch"})
    unbounded["transformations"][0]["kind"] = "legacy_source"
    with reading(parsed_objects(spark, [unbounded, simple("fine")])) as tables:
        (refused,) = tables.rejected.collect()
        assert (refused.error_stage, refused.error, refused.name) == (
            "stream_graph",
            "IllegalStateException",
            "unbounded",
        )
        assert refused.message.startswith("Detected an UNBOUNDED source with the 'execution.runtime-mode'")
        assert tables.topologies.count() == 1


def test_unreadable_input_is_an_error_of_the_run(spark: SparkSession, tmp_path: Path):
    with pytest.raises(InputError, match="no such file or directory"):
        read_topology_files(spark, [str(tmp_path / "missing.jsonl")])
    with pytest.raises(InputError, match="no such file or directory"):
        read_topology_files(spark, [str(tmp_path / "*.nothing")])
    with pytest.raises(InputError, match="no topology files given"):
        read_topology_files(spark, [])
    (tmp_path / "empty.jsonl").write_bytes(b"\n\n")
    with pytest.raises(InputError, match="no topologies in"):
        read_topology_files(spark, [str(tmp_path / "empty.jsonl")])


@pytest.mark.parametrize("damage", ["truncated", "no gzip"])
def test_a_corrupt_gzip_is_an_error_of_the_run(spark: SparkSession, tmp_path: Path, damage: str):
    path = tmp_path / "bad.jsonl.gz"
    whole = gzip.compress(b"\n".join(orjson.dumps(simple(f"j{i}")) for i in range(2000)))
    path.write_bytes(
        whole[: len(whole) // 2] if damage == "truncated" else b"this is no gzip file at all\n" * 9
    )
    with pytest.raises(InputError) as caught:
        read_topology_files(spark, [str(path)])
    assert caught.value.message == f"cannot read {path}: it is not a complete gzip file"
    assert caught.value.hint is not None


def test_objects_give_what_files_give(spark: SparkSession, tmp_path: Path):
    lines = golden_lines()
    golden = [line["topology"] for line in lines]
    expected = {line["topology"]["name"]: line["expected"] for line in lines}
    path = tmp_path / "golden.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, golden)))
    mixed = [t if i % 2 else orjson.dumps(t).decode() for i, t in enumerate(golden)]
    place = ("source_file", "source_line")
    with (
        reading(read_topology_files(spark, [str(path)])) as from_file,
        reading(parsed_objects(spark, mixed)) as from_objects,
    ):
        assert from_file.inputs == from_objects.inputs == len(golden)
        for row in from_file.rejected.collect():
            refusal = expected[row.name]
            assert (row.error_stage, row.error, row.message) == (
                refusal["error_stage"],
                refusal["error"],
                refusal["message"],
            )
        assert_df_equality(
            from_file.stream_edges, from_objects.stream_edges, ignore_row_order=True, ignore_nullable=True
        )
        assert from_file.stream_edges.count() > 0
        assert contents(from_file, place) == contents(from_objects, place)


def test_objects_that_are_no_topologies(spark: SparkSession):
    given: list[Any] = [simple("a"), {"name": "set", "transformations": {1, 2}}, "{", {1: 2}, simple("a")]
    with reading(parsed_objects(spark, given)) as tables:
        assert tables.inputs == 5
        errors = sorted(r.error for r in tables.rejected.collect())
        assert errors == ["DuplicateTopologyName", "NotJson", "NotJson", "NotJson"]
    with reading(parsed_objects(spark, [])) as tables:
        assert tables.inputs == tables.topologies.count() == tables.rejected.count() == 0


def test_several_partitions_give_one_result(spark: SparkSession, tmp_path: Path):
    lines, partitions = fleet(), 7
    whole, split = tmp_path / "whole", tmp_path / "split"
    whole.mkdir()
    split.mkdir()
    (whole / "all.jsonl").write_bytes(b"\n".join(lines))
    for p in range(partitions):
        (split / f"{p}.jsonl").write_bytes(b"\n".join(lines[p::partitions]))
    place = ("source_file", "source_line", "message", "errors")
    with (
        reading(read_topology_files(spark, [str(whole)])) as one,
        reading(read_topology_files(spark, [str(split)])) as several,
    ):
        assert contents(one, place) == contents(several, place)


def test_a_topology_larger_than_a_batch(spark: SparkSession):
    n = 20_000
    chain = [transformation(1, "source")] + [transformation(i, inputs=[i - 1]) for i in range(2, n + 1)]
    with reading(parsed_objects(spark, [{"name": "chain", "transformations": chain}, simple("s")])) as tables:
        assert tables.transformations.count() == n + 3
        assert tables.transformations.select("topology_id", "id").distinct().count() == n + 3
        assert tables.topologies.count() == 2


def test_columns_of_a_stream_graph(spark: SparkSession):
    with reading(parsed_objects(spark, [stream_graph("g")])) as tables:
        (edge,) = tables.stream_edges.collect()
        assert (edge.in_index, edge.out_index, edge.unique_id) == (0, 0, 0)
        assert edge.partitioner_key == "ForwardPartitioner"
        assert (edge.chainable, edge.chained_source, edge.not_chainable_reasons) == (False, False, [])
        (row,) = tables.topologies.collect()
        assert json.loads(row.stream_graph_settings)["sources"] == [1]
        (settings,) = tables.job_settings.collect()
        assert (settings.job_type, settings.checkpointing_interval_milliseconds) == ("STREAMING", -1)
