"""Stores that Spark and delta-rs both write: each reads and appends to what the other wrote."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.engine.spark.shared_settings import shared_settings
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.plan_versions import list_versions, publish
from penstock.engine.store.spark_tables import _ENCODINGS, LocalSparkTables, SparkTables, tables_of_spark
from penstock.engine.store.store_location import MANIFEST
from penstock.engine.store.store_tables import PLAN_VERSIONS, PlanVersion
from penstock.engine.store.vacuum_store import drop_version, remove_unfinished
from penstock.engine.store.write_plan import new_write_id, write_plan
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.tables.column_types import COMMENT
from tests.engine.store.arrow_plans import names, plan_of, rows_in, schema_of, topologies, write
from tests.engine.store.test_store import NOW
from tests.plans.planners.table_contents import rows_of

ROOT = Path(__file__).parents[3]
OfSpark = Callable[[SparkSession, str], SparkTables | LocalSparkTables]


def spark_write(
    spark: SparkSession,
    store: str,
    tables: dict[str, pa.Table],
    of_spark: OfSpark = tables_of_spark,
    **options: str,
) -> int:
    frames = {name: spark.createDataFrame(rows, spark_schema(name)) for name, rows in tables.items()}
    return write_plan(of_spark(spark, store), frames, planner_version="1", options=options)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of its own, with version 1 of plan_of(a="1")."""
    path = str(tmp_path / "store")
    assert write(path, plan_of(a="1")) == 1
    return path


@pytest.fixture(scope="module")
def made_by_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("spark") / "store")
    assert spark_write(spark, path, plan_of(a="1"), SparkTables) == 1
    return path


@pytest.fixture
def spark_store(made_by_spark: str, tmp_path: Path) -> str:
    """A store that Spark made, with version 1 of plan_of(a="1")."""
    return shutil.copytree(made_by_spark, str(tmp_path / "spark store"))


def test_numbers_and_ids_have_no_dictionary_whoever_writes(spark: SparkSession, tmp_path: Path):
    tables = {**plan_of(a="1"), "transformations": pa.concat_tables([every_type()] * 500)}
    write(str(tmp_path / "process"), tables)
    spark_write(spark, str(tmp_path / "workers"), tables)
    spark_write(spark, str(tmp_path / "spark"), tables, SparkTables)
    without: dict[str, set[str]] = {}
    for store in ("process", "workers", "spark"):
        for file in (tmp_path / store / "transformations").glob("*/*.parquet"):
            group = pq.ParquetFile(file).metadata.row_group(0)
            columns = [group.column(i) for i in range(group.num_columns)]
            none = {column.path_in_schema for column in columns if not column.has_dictionary_page}
            without[store] = without.get(store, none) & none
    numbers = {"topology_id", "id", "buffer_timeout"}
    assert all(numbers <= columns and not {"kind", "name"} & columns for columns in without.values())
    assert "parquet.enable.dictionary#id" not in spark.conf.getAll


def test_settings_of_writes_that_overlap_end_with_the_last_one(spark: SparkSession):
    key = "parquet.enable.dictionary#id"
    first, second = (shared_settings(spark, _ENCODINGS) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(key) == "false"
    second.__exit__(None, None, None)
    assert spark.conf.get(key, None) is None


def every_type() -> pa.Table:
    """Rows of `transformations` that use every type, with nulls and without."""
    resources = {"cpu_cores": 0.5, "task_heap_memory_bytes": 1, "task_off_heap_memory_bytes": 2}
    row = {
        "topology_id": -(2**63),
        "id": 1,
        "kind": "source",
        "name": "é|\n",
        "inputs": [],
        "managed_memory": [("OPERATOR", 7)],
        "slot_scope": ["PYTHON"],
        "min_resources": {**resources, "managed_memory_bytes": 2**40},
        "names": ["a", "b"],
        "buffer_timeout": -1,
    }
    other = {**row, "id": 2, "managed_memory": [], "min_resources": None, "names": None, "inputs": [1]}
    return pa.Table.from_pylist([row, other], schema_of("transformations"))


def test_spark_reads_what_was_written_here_and_goes_on(spark: SparkSession, store: str):
    plan = {**plan_of(a="1", b="1"), "transformations": every_type()}
    assert write(store, plan, until="topology") == 2
    read = read_plan(SparkTables(spark, store))
    for name, rows in plan.items():
        assert rows_of(read[name].toArrow()) == rows_of(rows)
    assert spark_write(spark, store, plan, SparkTables, until="topology") == 2
    assert spark_write(spark, store, plan_of(c="1"), SparkTables) == 3
    assert (names(store), names(store, 2)) == ({"c"}, {"a", "b"})
    assert write(store, plan_of(c="1")) == 3
    drop_version(SparkTables(spark, store), 2)
    assert [v.version for v in list_versions(DeltaRsTables(store))] == [1, 3]
    drop_version(DeltaRsTables(store), 1)
    assert [v.version for v in list_versions(SparkTables(spark, store))] == [3]
    assert spark_write(spark, store, plan_of(c="1"), SparkTables) == 3
    assert write(store, plan_of(d="1")) == 4


def test_what_spark_wrote_is_read_and_appended_to(spark: SparkSession, spark_store: str):
    plan = plan_of(a="1")
    assert write(spark_store, plan) == 1
    assert {n: rows_of(t) for n, t in read_plan(DeltaRsTables(spark_store), 1).items()} == {
        n: rows_of(t) for n, t in plan.items()
    }
    assert write(spark_store, {**plan_of(b="1"), "transformations": every_type()}) == 2
    stored = read_plan(SparkTables(spark, spark_store))
    assert {r["name"] for r in stored["topologies"].collect()} == {"b"}
    assert rows_of(stored["transformations"].toArrow()) == rows_of(every_type())
    DeltaRsTables(spark_store).append("topologies", topologies(x="1"), new_write_id())
    assert len(remove_unfinished(SparkTables(spark, spark_store), NOW)) == 1
    assert (names(spark_store, 1), names(spark_store, 2)) == ({"a"}, {"b"})


def test_tables_are_made_as_spark_makes_them(spark: SparkSession, store: str, spark_store: str):
    def made(path: str) -> dict[str, Any]:
        actions: dict[str, Any] = {}
        for line in Path(path, "_delta_log", f"{0:020}.json").read_text().splitlines():
            actions |= json.loads(line)
        described = {k: v for k, v in actions["metaData"].items() if k not in ("id", "createdTime")}
        described["schemaString"] = json.loads(described["schemaString"])
        return {"protocol": actions["protocol"], **{k: v for k, v in described.items() if v is not None}}

    for table in ("topologies", "rejected", MANIFEST):
        assert made(f"{store}/{table}") == made(f"{spark_store}/{table}")
    fields = spark.read.format("delta").load(f"{store}/{MANIFEST}").schema
    assert [f.metadata["comment"] for f in fields] == [f.metadata[COMMENT].decode() for f in PLAN_VERSIONS]


def test_a_write_of_one_id_is_stored_once_whoever_repeats_it(spark: SparkSession, spark_store: str):
    rows, write_id = topologies(b="1"), new_write_id()
    DeltaRsTables(spark_store).append("topologies", rows, write_id)
    DeltaRsTables(spark_store).append("topologies", rows, write_id)
    frame = spark.createDataFrame(rows, spark_schema("topologies"))
    SparkTables(spark, spark_store).append("topologies", frame, write_id, 1)
    assert rows_in(spark_store) == 2
    other = new_write_id()
    SparkTables(spark, spark_store).append("topologies", frame, other, 1)
    DeltaRsTables(spark_store).append("topologies", rows, other)
    assert rows_in(spark_store) == 3


def test_many_versions_and_their_checkpoints_stay_readable_both_ways(spark: SparkSession, tmp_path: Path):
    store = str(tmp_path / "store")
    for i in range(4):
        assert write(store, plan_of(**{f"t{i}": "1"})) == i + 1
    for table in ("topologies", "rejected", MANIFEST):
        DeltaTable(f"{store}/{table}").create_checkpoint()
    assert spark_write(spark, store, plan_of(s="1")) == 5
    for table in ("topologies", MANIFEST):
        jdelta = spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
        jdelta.forTable(spark._jsparkSession, f"{store}/{table}").checkpoint()
    assert write(store, plan_of(u="1")) == 6
    assert [names(store, i) for i in range(1, 7)] == [{"t0"}, {"t1"}, {"t2"}, {"t3"}, {"s"}, {"u"}]


@pytest.fixture
def between_read_and_commit(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is put into the list runs once, between reading the manifest and committing to it."""
    between: list[Any] = []
    read = DeltaRsTables.read_manifest

    def read_and_be_overtaken(delta: DeltaRsTables) -> Any:
        found = read(delta)
        if between:
            between.pop()()
        return found

    monkeypatch.setattr(DeltaRsTables, "read_manifest", read_and_be_overtaken)
    return between


def test_a_number_that_spark_takes_meanwhile_is_not_taken_again(
    spark: SparkSession, spark_store: str, between_read_and_commit: list[Any]
):
    (candidate,) = list_versions(DeltaRsTables(spark_store))
    others = [
        PlanVersion(None, new_write_id(), "complete", candidate.published_at, "1", {}, (), 0, 0)
        for _ in range(2)
    ]
    between_read_and_commit.append(lambda: publish(SparkTables(spark, spark_store), others[0]))
    assert publish(DeltaRsTables(spark_store), others[1]) == 3
    found = [(v.version, v.write_id) for v in list_versions(SparkTables(spark, spark_store))]
    assert found[1:] == [(2, others[0].write_id), (3, others[1].write_id)]


def test_spark_and_delta_rs_publish_at_the_same_time(spark: SparkSession, spark_store: str):
    with ThreadPoolExecutor(2) as pool:
        ours = pool.submit(lambda: [write(spark_store, plan_of(**{f"d{i}": "1"})) for i in range(12)])
        theirs = pool.submit(spark_write, spark, spark_store, plan_of(s="1"))
        versions = [*ours.result(), theirs.result()]
    assert sorted(versions) == [*range(2, 15)]
    assert [v.version for v in list_versions(DeltaRsTables(spark_store))] == [*range(1, 15)]
    assert names(spark_store, theirs.result()) == {"s"}


def test_a_killed_writer_is_not_seen_and_two_others_lose_nothing(spark: SparkSession, tmp_path: Path):
    store, go, count = str(tmp_path / "store"), tmp_path / "go", 10
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK")}
    writers = {}
    try:
        for name in ("killed", "a", "b"):
            command = [
                sys.executable,
                "-m",
                "tests.engine.store.writer_without_spark",
                store,
                name,
                str(go),
                str(count),
            ]
            writers[name] = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
            )
        for writer in writers.values():
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        writers["killed"].send_signal(signal.SIGKILL)
        writers["killed"].communicate()
        go.touch()
        versions = {n: [int(v) for v in writers[n].communicate(timeout=120)[0].split()] for n in ("a", "b")}
    finally:
        for writer in writers.values():
            if writer.poll() is None:
                writer.kill()
                writer.communicate()
    assert sorted(versions["a"] + versions["b"]) == [*range(1, 2 * count + 1)]
    assert [v.version for v in list_versions(DeltaRsTables(store))] == [*range(1, 2 * count + 1)]
    for name, numbers in versions.items():
        assert [names(store, v) for v in numbers] == [{f"{name}{i}"} for i in range(count)]
    assert rows_in(store) == 2 * count + 1
    assert len(remove_unfinished(SparkTables(spark, store), NOW)) == 1
    assert rows_in(store) == 2 * count
