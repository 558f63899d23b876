"""The plan of one process, whatever the partition count, the session's settings and the order of the rows."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.planning import plan_giants, plan_on_spark
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.planning.planners import Planner
from penstock.engine.planning.planning_settings import planning_settings
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.topology.fingerprint import BLOCK
from penstock.plans.topology.job_defaults import NO_DEFAULTS
from penstock.plans.topology.on_spark.topologies_of_lines import given_objects, parsed_given_lines
from tests.planned_lines import differs
from tests.plans.planners.table_contents import rows_of
from tests.reference.deep_topologies import SHAPES, deep_topologies
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology

RANDOM = [random_topology(seed, 3 + seed % 40, mode=mode) for mode in MODES for seed in range(500, 519)]
DEEP = {topology["name"]: topology for topology in deep_topologies()}
TOPOLOGIES = [*RANDOM, *DEEP.values()]
LARGEST = max(len(topology["transformations"]) for topology in RANDOM)
Rows = dict[str, list[str]]
WITHOUT = ("source_file", "source_line")
"""Columns that tables do not have."""


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, str(old))


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Of one process."""
    return dict(plan_in_process(TOPOLOGIES).tables)


@pytest.fixture(scope="module")
def base(tables: dict[str, pa.Table]) -> Rows:
    return {name: rows_of(table, WITHOUT) for name, table in tables.items()}


@pytest.fixture(scope="module")
def planned(spark: SparkSession) -> Rows:
    """Deep topologies in blocks, the others in workers, in a session of unusual settings."""

    def shuffled(rows: DataFrame) -> DataFrame:
        return rows.orderBy(F.rand(2)).repartition(3)

    read = parsed_given_lines(given_objects(spark, TOPOLOGIES, NO_DEFAULTS))
    settings = {"spark.sql.adaptive.enabled": "true", "spark.sql.ansi.enabled": "false"}
    with session_settings(spark, settings), pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan_on_spark, "OF_GIANTS", Size(LARGEST, 2**40))
        patched.setattr(plan_giants, "_rows_of_a_block", lambda size, cores: BLOCK)
        given = (shuffled(read.topologies), shuffled(read.transformations))
        planned = plan_on_spark.plan_on_spark(given, spark=spark, planner=Planner.JOINS)
        found = {name: rows_of(frame.toArrow(), WITHOUT) for name, frame in planned.tables.items()}
        planned.release()
    refused_by_readers = rows_of(read.rejected.toArrow(), WITHOUT)
    for kept in read.persisted:
        kept.unpersist()
    return {**found, "rejected": sorted([*found["rejected"], *refused_by_readers])}


def test_rows_are_equal(planned, base):
    assert [table for table in base if planned[table] != base[table]] == []


def test_the_rows_are_not_few(base):
    counts = {table: len(rows) for table, rows in base.items()}
    assert counts["topologies"] + counts["rejected"] == len(TOPOLOGIES) > 70
    assert counts["rejected"] > 5
    assert counts["stream_nodes"] == counts["chained_operators"] > 1_000
    assert min(counts.values()) > 0


@pytest.fixture(scope="module")
def plans(tables: dict[str, pa.Table]) -> dict[str, Any]:
    """Of the deep topologies; rows on Spark are equal to these."""
    lines = to_plan_lines({name: from_arrow(table) for name, table in tables.items()})
    return {name: json.loads(line) for name, line in lines.rows() if name in DEEP}


@pytest.mark.parametrize("name", [shape.__name__ for shape in SHAPES])
def test_deep_topologies_are_planned_as_the_reference_plans_them(name, plans):
    expected = plan(DEEP[name])
    assert "error" not in expected
    assert not differs(plans[name], expected)


def test_the_shapes_are_as_deep_as_they_say(plans):
    sizes = {name: len(topology["transformations"]) for name, topology in DEEP.items()}
    assert max(sizes.values()) > 2 * sys.getrecursionlimit()
    edges = {name: len(planned["stream_graph"]["edges"]) for name, planned in plans.items()}
    assert edges == {
        "chain": 2_999,
        "virtual_chain": 1,
        "wide_union": 2_000,
        "nested_unions": 201,
        "uids": 2_999,
    }
    assert len(plans["chain"]["job_graph"]["vertices"]) == 1


def test_planning_settings_are_what_passes_need_and_put_back_what_was_there(spark):
    keys = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")
    with session_settings(spark, {keys[0]: "true", keys[1]: "5"}):
        with planning_settings(spark, 3):
            assert [spark.conf.get(key) for key in keys] == ["false", "3"]
            assert spark.conf.get("spark.sql.files.minPartitionNum") == "3"
        assert [spark.conf.get(key) for key in keys] == ["true", "5"]


def test_planning_settings_put_back_what_was_there_when_planning_raises(spark):
    key = "spark.sql.adaptive.enabled"

    def fail() -> None:
        with planning_settings(spark, 3):
            raise ValueError("a pass failed")

    with session_settings(spark, {key: "true"}):
        with pytest.raises(ValueError, match="a pass failed"):
            fail()
        assert spark.conf.get(key) == "true"


def test_planning_settings_unset_what_was_not_set(spark):
    with planning_settings(spark, 3):
        pass
    touched = {
        "spark.sql.unionOutputPartitioning",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.files.minPartitionNum",
    }
    given = {row["key"] for row in spark.sql("SET").collect()}
    assert not touched & given
