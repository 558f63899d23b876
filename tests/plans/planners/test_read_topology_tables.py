"""Given tables without Spark: the same rows, refusals and errors as Spark's reader of tables."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from penstock.engine.planning.plan_topologies import read_topologies as read_with_spark
from penstock.engine.planning.plan_topologies import validated
from penstock.plans.errors import InputError, SchemaError
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.frames.spark_schemas import spark_type
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.tables.column_types import RESOURCES
from penstock.plans.topology.columnar.read_topology_tables import read_topology_tables
from penstock.plans.topology.columnar.topologies_of_lines import TopologyTables, topology_id
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.joins.read_topology_tables import read_topology_tables as read_tables_with_spark
from penstock.plans.topology.joins.topologies_of_lines import read_topology_objects
from tests.plans.planners.table_contents import frame_contents
from tests.plans.planners.test_read_topologies import COLLIDING
from tests.plans.topology.builders import golden_lines, simple
from tests.plans.topology.test_read_topology_files import contents, reading
from tests.plans.topology.test_read_topology_tables import as_tables, changed, every_setting


def assert_same(spark: SparkSession, topologies: DataFrame, rows: DataFrame) -> TopologyTables:
    """Both read the same out of two tables."""
    found = read_topology_tables(topologies.toArrow(), rows.toArrow())
    with reading(read_tables_with_spark(spark, topologies, rows)) as expected:
        assert found.inputs == expected.inputs
        assert frame_contents(found) == contents(expected)
    return found


def with_null(rows: DataFrame, topology: str, id_: int, column: str, value: str) -> DataFrame:
    """As `changed`, for a value that the declared type does not allow."""
    here = (F.col("topology_id") == F.xxhash64(F.lit(topology))) & (F.col("id") == id_)
    return rows.withColumn(column, F.when(here, F.expr(value)).otherwise(F.col(column)))


def test_right_tables_in_delta_and_parquet(spark: SparkSession, tmp_path: Path):
    given = [
        line["topology"]
        for line in golden_lines(4)
        if "transformations" in line["topology"] and line["expected"].get("error_stage") != "stream_graph"
    ]
    given += [every_setting(), simple("batch", config={"execution.runtime-mode": "AUTOMATIC"})]
    with reading(read_topology_objects(spark, given)) as objects:
        expected = contents(objects)
        for kind in ("parquet", "delta"):
            for name in ("topologies", "transformations"):
                rows: DataFrame = getattr(objects, name)
                rows.repartition(3).write.format(kind).save(str(tmp_path / kind / name))
            found = read_topologies(tmp_path / kind)
            assert found.inputs == len(given)
            assert frame_contents(found) == expected


def test_delta_tables_with_deletion_vectors(spark: SparkSession, tmp_path: Path):
    topologies, rows = as_tables(spark, [simple("a"), simple("b"), simple("c")])
    for name, df in (("topologies", topologies), ("transformations", rows)):
        path = str(tmp_path / name)
        writer = df.coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true")
        writer.save(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE topology_id = xxhash64('b')")
    found = read_topologies(tmp_path)
    assert sorted(found.topologies["name"]) == ["a", "c"]
    with reading(validated(spark, read_with_spark(spark, tmp_path))) as expected:
        assert frame_contents(found) == contents(expected)


WITH_WRONG_ROWS = [
    *("dangling", "forward", "cycle", "kind", "value", "range", "key", "missing", "option", "batch"),
    *("null", "nan", "order", "fine"),
]


def with_wrong_rows(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    given = [simple(name) for name in WITH_WRONG_ROWS]
    given[9]["config"] = {"execution.runtime-mode": "BATCH"}
    topologies, rows = as_tables(spark, given)
    rows = changed(rows, "dangling", 2, inputs="array(9)")
    rows = changed(rows, "forward", 2, inputs="array(3)", uid_hash="'xyz'")
    rows = with_null(rows, "forward", 2, "names", "array('a', null)")
    rows = changed(rows, "cycle", 2, inputs="array(2)", managed_memory="map('OPERATOR', 0, 'PYTHON', 1)")
    rows = changed(rows, "kind", 2, kind="'one_inputs'")
    rows = changed(rows, "value", 2, chaining="'never'", slot_scope="array('PYTHON', 'x')")
    rows = changed(rows, "range", 2, parallelism="0", max_parallelism="99999", buffer_timeout="-2")
    rows = changed(rows, "key", 2, tag="'late'")
    rows = changed(rows, "missing", 2, kind="'partition'", inputs="array(1)")
    rows = changed(rows, "batch", 1, kind="'legacy_source'")
    rows = changed(rows, "null", 2, kind="null")
    rows = with_null(rows, "null", 2, "inputs", "array(1, null)")
    spec = "'task_heap_memory_bytes', 1L, 'task_off_heap_memory_bytes', 0L, 'managed_memory_bytes', 0L"
    nan = f"named_struct('cpu_cores', double('NaN'), {spec})"
    low = f"named_struct('cpu_cores', double('-Infinity'), {spec})"
    rows = with_null(rows, "nan", 2, "min_resources", low)
    rows = with_null(rows, "nan", 2, "preferred_resources", nan)
    rows = changed(rows, "order", 2, id="-7")
    bad_option = F.create_map(F.lit("execution.runtime-mode"), F.lit("FOO"), F.lit("x"), F.lit(None))
    topologies = topologies.withColumn(
        "config", F.when(F.col("name") == "option", bad_option).otherwise(F.col("config"))
    )
    return topologies, rows


@pytest.fixture(scope="module")
def read_alike(spark: SparkSession) -> TopologyTables:
    """What both read of tables with wrong rows, ids and names."""
    (topologies, rows), (others, their_rows) = with_wrong_rows(spark), with_wrong_ids_and_names(spark)
    return assert_same(spark, topologies.unionByName(others), rows.unionByName(their_rows))


def test_wrong_rows(read_alike: TopologyTables):
    assert [name for name in read_alike.topologies["name"] if name in WITH_WRONG_ROWS] == ["fine"]
    errors = {
        row["name"]: {error["error"] for error in row["errors"]} for row in read_alike.rejected.to_dicts()
    }
    expected = {
        "dangling": "DanglingInput",
        "forward": "ForwardInput",
        "cycle": "Cycle",
        "kind": "UnknownKind",
        "value": "UnknownValue",
        "range": "OutOfRange",
        "key": "KeyNotAllowed",
        "missing": "MissingKey",
        "option": "InvalidOptionValue",
        "batch": "IllegalStateException",
    }
    assert [name for name, error in expected.items() if error not in errors[name]] == []


def with_wrong_ids_and_names(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    names = ("twice", "gap", "double", "empty", "gone", "right", "id", "name", "form", *COLLIDING[:1])
    topologies, rows = as_tables(spark, [simple(n) for n in names])
    once = topologies.where("name != 'gone'")
    other_name = F.when(F.col("name") == COLLIDING[0], F.lit(COLLIDING[1])).otherwise(F.col("name"))
    again = once.where(F.col("name").isin("twice", COLLIDING[0])).withColumn("name", other_name)
    topologies = once.unionByName(again)
    is_id, is_name, is_form = (F.col("name") == name for name in ("id", "name", "form"))
    topologies = topologies.withColumns(
        {
            "topology_id": F.when(is_id, F.col("topology_id") + 1).otherwise(F.col("topology_id")),
            "name": F.when(is_name, None).otherwise(F.col("name")),
            "form": F.when(is_form, "stream_graph").otherwise(F.col("form")),
            "source_file": F.lit("x.jsonl"),
            "source_line": F.lit(5).cast("long"),
        }
    )
    of = {
        name: F.col("topology_id") == F.xxhash64(F.lit(name)) for name in ("gap", "double", "empty", "right")
    }
    rows = rows.where(~of["empty"] & ~(of["gap"] & (F.col("id") == 2)))
    rows = rows.unionByName(rows.where(of["double"] & (F.col("id") == 2)))
    nowhere = rows.where(of["right"]).withColumn("topology_id", F.lit(None).cast("long"))
    return topologies, rows.unionByName(nowhere)


def test_ids_names_and_missing_halves(read_alike: TopologyTables):
    rejected = read_alike.rejected.filter(~pl.col("name").is_in(WITH_WRONG_ROWS).fill_null(False))
    assert sorted(rejected["error"].unique()) == [
        "DuplicateId",
        "DuplicateTopologyName",
        "EmptyTopology",
        "IdOutOfOrder",
        "MissingKey",
        "NoTopology",
        "TopologyIdCollision",
        "TopologyIdMismatch",
        "UnknownValue",
    ]


def test_the_error_of_an_id_does_not_depend_on_the_order_of_rows(spark: SparkSession):
    """Two rows with one topology_id, one of them with another's name."""
    topologies, rows = as_tables(spark, [simple("a"), simple("b")])
    same_id = topologies.withColumn("topology_id", F.xxhash64(F.lit("a")))
    expected = ["TopologyIdCollision", "TopologyIdCollision", "NoTopology"]
    assert assert_same(spark, same_id.orderBy("name"), rows).rejected["error"].to_list() == expected
    turned = same_id.orderBy(F.col("name").desc())
    assert read_topology_tables(turned.toArrow(), rows.toArrow()).rejected["error"].to_list() == expected


def test_resources_that_are_left_out_are_none(spark: SparkSession):
    """The plan and fingerprint are those of zeros, whichever of the two is left out."""
    given = [every_setting()]
    _, rows = as_tables(spark, given)
    zero = read_topologies(given)
    for name in ("task_off_heap_memory_bytes", "managed_memory_bytes"):
        without = {
            column: F.col(column).withField(name, F.lit(None).cast("long"))
            for column in ("min_resources", "preferred_resources")
        }
        topologies, _ = as_tables(spark, given)
        found = assert_same(spark, topologies, rows.withColumns(without))
        assert frame_contents(found) == frame_contents(zero)


def test_resources_of_some_rows_only_reach_arrow(spark: SparkSession):
    schema = StructType([StructField("resources", spark_type(RESOURCES))])
    resources = {"cpu_cores": 1.0} | dict.fromkeys(RESOURCES.names[1:], 0)
    rows = spark.createDataFrame([(None,), (resources,)], schema)
    assert rows.toArrow()["resources"].to_pylist() == [None, resources]


def test_keys_that_come_twice_beside_configured_defaults_are_refused(spark: SparkSession, tmp_path: Path):
    entries = pa.array([[("a", "1"), ("a", "2")], [("a", "1")]], pa.map_(pa.string(), pa.string()))
    topologies = pa.table({"name": ["twice", "once"], "config": entries})
    _, rows = as_tables(spark, [simple("twice"), simple("once")])
    (tmp_path / "topologies").mkdir()
    pq.write_table(topologies, tmp_path / "topologies" / "part.parquet")
    rows.write.parquet(str(tmp_path / "transformations"))
    defaults = JobDefaults(config={"pipeline.max-parallelism": "64"})
    found = read_topologies(tmp_path, job_defaults=defaults)
    assert [found.topologies["name"].to_list(), found.rejected["error"].to_list()] == [
        ["once"],
        ["DuplicateKey"],
    ]
    read = read_with_spark(spark, tmp_path, job_defaults=defaults)
    with reading(validated(spark, read)) as expected:
        assert frame_contents(found) == contents(expected)


def test_columns_may_be_left_out_but_not_be_wrong(spark: SparkSession):
    topologies, rows = as_tables(spark, [simple("a")])
    few = rows.select("id", "topology_id", "kind", "inputs")
    assert_same(spark, topologies.select("name"), few)
    nulls = {n: F.lit(None).cast(rows.schema[n].dataType) for n in ("name", "managed_memory", "slot_scope")}
    assert_same(spark, topologies, rows.withColumns(nulls))
    given, fine = to_arrow(read_topologies([simple("a")]).topologies, "topologies"), rows.toArrow()
    for wrong, said in (
        ((given, fine.drop_columns("kind")), r"column kind \(string\) is missing"),
        ((given, fine.set_column(1, "id", fine["id"].cast(pa.string()))), "id must be int, got string"),
        ((given.append_column("extra", pa.array([1])), fine), "extra is not a column of topologies"),
    ):
        with pytest.raises(SchemaError, match=said) as caught:
            read_topologies(wrong)
        with pytest.raises(SchemaError) as expected:
            read_tables_with_spark(spark, *map(spark.createDataFrame, wrong))
        assert str(caught.value) == str(expected.value)


def test_a_missing_table_and_a_folder_among_files(tmp_path: Path):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "a.parquet").touch()
    with pytest.raises(InputError, match=r"cannot read .*/topologies"):
        read_topologies(tmp_path)
    given: Any = [tmp_path, tmp_path / "x.jsonl"]
    with pytest.raises(InputError, match="contains tables and cannot be read together"):
        read_topologies(given)


def as_arrow_tables(**columns: pa.Array) -> tuple[pa.Table, pa.Table]:
    """Topologies a and b, a source and a sink each; `columns` of either table are added or replaced."""
    ids = [topology_id(name) for name in ("a", "a", "b", "b")]
    tables = {
        "topologies": {"name": pa.array(["a", "b"])},
        "transformations": {
            "topology_id": pa.array(ids),
            "id": pa.array([1, 2, 1, 2], pa.int32()),
            "kind": pa.array(["source", "sink"] * 2),
            "inputs": pa.array([[], [1]] * 2, pa.list_(pa.int32())),
        },
    }
    for name, column in columns.items():
        tables["topologies" if name in ("name", "config") else "transformations"][name] = column
    return pa.table(tables["topologies"]), pa.table(tables["transformations"])


def test_maps_with_a_key_twice(spark: SparkSession, tmp_path: Path):
    config = pa.array([[("k", "1"), ("k", "2")], []], pa.map_(pa.string(), pa.string()))
    weights = pa.array(
        [[], [], [("OPERATOR", 1)], [("OPERATOR", 1), ("OPERATOR", 2)]], pa.map_(pa.string(), pa.int32())
    )
    tables = as_arrow_tables(config=config, managed_memory=weights)
    for name, table in zip(("topologies", "transformations"), tables, strict=True):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "part.parquet")
    found = read_topologies(tmp_path)
    assert list(found.rejected["error"]) == ["DuplicateKey", "DuplicateKey"]
    with reading(validated(spark, read_with_spark(spark, tmp_path))) as expected:
        assert frame_contents(found) == contents(expected)


def test_flavours_and_empty_tables():
    topologies, rows = as_arrow_tables(kind=pa.array(["source", "sink"] * 2).dictionary_encode())
    assert list(read_topologies((topologies, rows)).topologies["name"]) == ["a", "b"]
    assert read_topologies((topologies.slice(0, 0), rows.slice(0, 0))).inputs == 0
    orphans = read_topologies((topologies.slice(0, 0), rows))
    assert list(orphans.rejected["error"]) == ["NoTopology", "NoTopology"]


def test_text_that_is_not_utf8():
    bounds = pa.py_buffer(np.arange(3, dtype=np.int32))
    name = pa.Array.from_buffers(pa.string(), 2, [None, bounds, pa.py_buffer(b"a\xff")])
    with pytest.raises(SchemaError, match=r"table topologies, column name: .*Invalid UTF8"):
        read_topologies(as_arrow_tables(name=name))


def test_a_folder_with_other_columns_cannot_be_read(tmp_path: Path):
    for name, table in zip(("topologies", "transformations"), as_arrow_tables(), strict=True):
        (tmp_path / name).mkdir()
        pq.write_table(table.append_column("extra", pa.nulls(len(table))), tmp_path / name / "part.parquet")
    with pytest.raises(InputError, match="extra is not a column of topologies"):
        read_topologies(tmp_path)
