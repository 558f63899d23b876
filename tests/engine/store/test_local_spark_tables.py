"""Files of a local store that Spark's workers write, and commits without Spark."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.planning.plan_on_spark import plan_on_spark
from penstock.engine.planning.planners import Planner
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.engine.spark.shared_settings import scoped_settings
from penstock.engine.store import spark_tables as local_spark_tables
from penstock.engine.store import write_rows_in_workers
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.spark_tables import SparkTables, tables_of_spark
from penstock.engine.store.store_location import store_errors
from penstock.engine.store.write_plan import new_write_id, write_plan
from penstock.engine.store.write_rows_in_workers import with_settings
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.tables import TABLES
from tests.engine.store.arrow_plans import topologies
from tests.plans.planners.table_contents import rows_of

GIVEN: list[dict[str, Any]] = [
    {"name": name, "transformations": [{"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}]}
    for name in ("a", "b")
]
GIVEN += [{"name": "wrong"}]


def edges(spark: SparkSession, count: int) -> DataFrame:
    """Rows of stream_edges, each third of them with names that an output selects."""
    schema = TABLES["stream_edges"]
    columns = {field.name: [_value(field, row) for row in range(count)] for field in schema}
    return spark.createDataFrame(pa.table(columns, schema), spark_schema("stream_edges"))


def _value(field: pa.Field, row: int) -> object:
    if field.name == "selected_names":
        return [f"n{row}"] if row % 3 == 0 else None
    if pa.types.is_list(field.type):
        return []
    if pa.types.is_integer(field.type):
        return row
    return False if pa.types.is_boolean(field.type) else "x"


def test_rows_are_the_same_in_any_number_of_partitions_and_files_are_listed(
    spark: SparkSession, tmp_path: Path
):
    rows = edges(spark, 50)
    for partitions in (1, 2, 7):
        store, write_id = str(tmp_path / str(partitions)), new_write_id()
        delta = tables_of_spark(spark, store)
        delta.append("stream_edges", rows.repartition(partitions), write_id, None)
        assert rows_of(DeltaRsTables(store).read("stream_edges", write_id)) == rows_of(rows.toArrow())
        assert rows_of(delta.read("stream_edges", write_id).toArrow()) == rows_of(rows.toArrow())
        listed = delta.listed_files("stream_edges", write_id) or []
        found = (tmp_path / str(partitions) / "stream_edges").glob("write_id=*/*.parquet")
        assert {Path(file.path).name for file in listed} == {file.name for file in found}
        assert sum(file.rows or 0 for file in listed) == 50


def test_what_a_task_that_ran_twice_has_left_is_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_rows = write_rows_in_workers.write_rows

    def write_twice(rows: DataFrame, table: str, folder: str, inside: str) -> DataFrame:
        write_rows(rows, table, folder, inside).collect()
        return write_rows(rows, table, folder, inside)

    monkeypatch.setattr(local_spark_tables, "write_rows", write_twice)
    delta, write_id = tables_of_spark(spark, str(tmp_path)), new_write_id()
    delta.append("stream_edges", edges(spark, 9), write_id, 1)
    files = list((tmp_path / "stream_edges").glob("write_id=*/*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [9]


def test_a_store_with_escapes_in_its_uri_is_written_again(spark: SparkSession, tmp_path: Path):
    delta = tables_of_spark(spark, f"{tmp_path.as_uri()}/a%20b")
    rows = spark.createDataFrame(topologies(a="1"), spark_schema("topologies"))
    write_id = new_write_id()
    delta.append("topologies", rows, write_id, 1)
    assert delta.read("topologies", write_id).count() == 1
    assert (tmp_path / "a b" / "topologies").is_dir()


def test_no_rows_leave_a_table_without_files(spark: SparkSession, tmp_path: Path):
    delta, write_id = tables_of_spark(spark, str(tmp_path)), new_write_id()
    delta.append("stream_edges", edges(spark, 1).limit(0), write_id, 1)
    assert delta.has("stream_edges")
    assert delta.listed_files("stream_edges", write_id) == []


def test_a_folder_that_takes_no_files_is_an_error_in_a_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Such as one that was removed since, as a failed write's is: its last tasks make no new one."""
    delta, write_id = tables_of_spark(spark, str(tmp_path)), new_write_id()
    write_rows = write_rows_in_workers.write_rows

    def without_folder(rows: DataFrame, table: str, folder: str, inside: str) -> DataFrame:
        (Path(folder) / inside).rmdir()
        return write_rows(rows, table, folder, inside)

    monkeypatch.setattr(local_spark_tables, "write_rows", without_folder)
    rows = spark.createDataFrame(topologies(a="1"), spark_schema("topologies"))
    with pytest.raises(PythonException) as error, store_errors(str(tmp_path), "writing"):
        delta.append("topologies", rows, write_id, 1)
    said = describe_spark_error(error.value)
    assert "cannot write to the store" in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("topologies/write_id=*"))


def test_rows_are_planned_with_settings_beside_their_session_and_by_its_workers(spark: SparkSession):
    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [len(batch)], "daemon": [os.getppid()]})

    rows = spark.range(10).coalesce(1).mapInArrow(sizes, "rows long, daemon long")
    at_a_time = "spark.sql.execution.arrow.maxRecordsPerBatch"
    with scoped_settings(spark, {at_a_time: "5"}):
        assert [row["rows"] for row in with_settings(rows, {}).collect()] == [5, 5]
    assert [row["rows"] for row in with_settings(rows, {}).collect()] == [10]
    beside = with_settings(rows, {at_a_time: "4"}).collect()
    assert [row["rows"] for row in beside] == [4, 4, 2]
    here = rows.select("*").collect()
    assert [row["rows"] for row in here] == [10]
    assert len({row["daemon"] for row in [*beside, *here]}) == 1


def test_a_plan_of_spark_is_stored_as_it_reads(spark: SparkSession, tmp_path: Path):
    planned = plan_on_spark(GIVEN, spark=spark, planner=Planner.COLUMNAR)
    delta = tables_of_spark(spark, str(tmp_path), planned.packed)
    packed = {table for of_rows in planned.packed for table in of_rows.tables}
    assert {"execution_edges", "execution_vertices", "network_buffers"} <= packed
    assert "transformations" in packed
    write_plan(delta, planned.tables, planner_version="1", options={})
    stored = read_plan(DeltaRsTables(str(tmp_path)))
    for name, rows in planned.tables.items():
        assert rows_of(stored[name]) == rows_of(rows.toArrow()), name
    assert stored["topologies"].num_rows == 2
    assert stored["rejected"].num_rows == 1
    assert write_plan(delta, planned.tables, planner_version="1", options={}) == 1
    write_id = new_write_id()
    for _ in range(2):
        delta.append_all(planned.tables, write_id, {})
        assert delta.read("stream_nodes", write_id).count() == 4
    of_spark = read_plan(SparkTables(spark, str(tmp_path)))
    assert of_spark["stream_nodes"].count() == 4
    planned.release()


def test_a_repeated_task_may_remove_its_file_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inside = tmp_path / "write_id=w"
    inside.mkdir()
    for name in ("listed", "left"):
        (inside / name).touch()
    monkeypatch.setattr(os, "listdir", lambda path: ["listed", "left", "removed"])
    local_spark_tables._remove_others(str(tmp_path), "write_id=w", {"write_id=w/listed": 1})
    assert [(inside / name).exists() for name in ("listed", "left")] == [True, False]
    local_spark_tables._remove_others(str(tmp_path), "write_id=w", {})
    assert not inside.exists()
