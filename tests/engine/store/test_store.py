"""The store: complete versions only, none lost, none changed until it is dropped."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.store import plan_versions
from penstock.engine.store import write_plan as writing
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.plan_versions import list_versions
from penstock.engine.store.spark_tables import SparkTables
from penstock.engine.store.vacuum_store import remove_unfinished
from penstock.engine.store.write_plan import new_write_id, write_plan
from penstock.plans.errors import SchemaError, StoreError
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.tables import TABLES

NOW = timedelta(seconds=-60)
"""Older than a moment to come: everything unfinished counts as dead."""


def topologies(spark: SparkSession, **fingerprints: str) -> DataFrame:
    rows = list(fingerprints.items())
    named = spark.createDataFrame(rows, "name string, fingerprint string")
    values = {
        "topology_id": F.xxhash64("name"),
        "name": F.col("name"),
        "form": F.lit("transformations"),
        "parallelism": F.lit(1),
        "chaining": F.lit(True),
        "config": F.create_map(),
        "fingerprint": F.col("fingerprint"),
    }
    return named.select(
        *(
            values.get(f.name, F.lit(None)).cast(f.dataType.simpleString()).alias(f.name)
            for f in spark_schema("topologies").fields
        )
    )


def plan_of(spark: SparkSession, **fingerprints: str) -> dict[str, DataFrame]:
    return {
        "topologies": topologies(spark, **fingerprints),
        "rejected": spark.createDataFrame([], spark_schema("rejected")),
    }


def write(spark: SparkSession, store: str, tables: dict[str, DataFrame], **options: str) -> int:
    return write_plan(SparkTables(spark, store), tables, planner_version="1", options=options)


def names(spark: SparkSession, store: str, version: int | None = None) -> set[str]:
    return {r["name"] for r in read_plan(SparkTables(spark, store), version)["topologies"].collect()}


@pytest.fixture
def new_store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture(scope="module")
def written_store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("written") / "store")
    assert write(spark, path, plan_of(spark, a="1")) == 1
    return path


@pytest.fixture
def store(written_store: str, new_store: str) -> str:
    """A store of its own, with version 1 of plan_of(a="1"): making tables is what takes long."""
    return shutil.copytree(written_store, new_store)


def test_planning_again_adds_a_version_and_the_old_one_stays_readable(spark, store):
    assert write(spark, store, plan_of(spark, a="1", b="1")) == 2
    assert (names(spark, store), names(spark, store, 1)) == ({"a", "b"}, {"a"})
    assert read_plan(SparkTables(spark, store))["topologies"].schema.names == TABLES["topologies"].names


def test_a_write_that_stops_before_it_publishes_is_not_seen_and_can_be_removed(spark, store):
    SparkTables(spark, store).append("topologies", topologies(spark, b="1"), new_write_id(), 1)
    assert names(spark, store) == {"a"}
    assert [v.version for v in list_versions(SparkTables(spark, store))] == [1]
    assert remove_unfinished(SparkTables(spark, store)) == []
    assert len(remove_unfinished(SparkTables(spark, store), NOW)) == 1
    rows = spark.read.format("delta").load(f"{store}/topologies")
    assert {r["name"] for r in rows.collect()} == {"a"}


def test_a_write_that_fails_leaves_no_rows(spark, store):
    broken = {**plan_of(spark, b="1"), "job_vertices": spark.range(1)}
    with pytest.raises(SchemaError, match=r"job_vertices.*column vertex_id is missing"):
        write(spark, store, broken)
    rows = spark.read.format("delta").load(f"{store}/topologies")
    assert {r["name"] for r in rows.collect()} == {"a"}


def test_appending_one_write_twice_stores_it_once(spark, new_store):
    store = new_store
    write_id = new_write_id()
    for _ in range(2):
        SparkTables(spark, store).append("topologies", topologies(spark, a="1"), write_id, 1)
    assert spark.read.format("delta").load(f"{store}/topologies").count() == 1


def test_writers_at_the_same_time_lose_no_version(spark, store, monkeypatch):
    writers = 3
    together = Barrier(writers)
    publish = plan_versions.publish

    def publish_together(*args):
        together.wait(120)
        return publish(*args)

    monkeypatch.setattr(writing, "publish", publish_together)
    plans = [plan_of(spark, **{f"t{i}": "1"}) for i in range(writers)]
    with ThreadPoolExecutor(writers) as pool:
        versions = [f.result() for f in [pool.submit(write, spark, store, plan) for plan in plans]]
    assert sorted(versions) == [2, 3, 4]
    assert [names(spark, store, v) for v in versions] == [{f"t{i}"} for i in range(writers)]


def test_what_is_no_store_or_no_plan_is_said_so(spark, store):
    with pytest.raises(StoreError, match="is not a plan store"):
        read_plan(SparkTables(spark, f"{store}/elsewhere"))
    with pytest.raises(StoreError, match="surprises"):
        write(spark, store, {**plan_of(spark, a="1"), "surprises": spark.range(1)})
