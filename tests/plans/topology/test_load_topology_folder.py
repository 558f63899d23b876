"""Folders of given tables, as Spark reads them."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from penstock.plans.errors import InputError
from penstock.plans.topology.on_spark.normalized_tables import load_topology_folder
from penstock.plans.topology.on_spark.topologies_of_lines import GivenTables

TOPOLOGIES = pa.table({"name": ["a", "b"], "topology_id": pa.array([1, 2], pa.int64())})
TRANSFORMATIONS = pa.table(
    {
        "topology_id": pa.array([1, 1, 2], pa.int64()),
        "id": pa.array([1, 2, 1], pa.int32()),
        "kind": ["source", "sink", "source"],
        "inputs": pa.array([[], [1], []], pa.list_(pa.int32())),
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written = tmp_path / "tables"
    write_deltalake(written / "topologies", TOPOLOGIES)
    write_deltalake(written / "transformations", TRANSFORMATIONS.slice(0, 1))
    write_deltalake(written / "transformations", TRANSFORMATIONS, mode="overwrite")
    return written


def rows(given: GivenTables) -> list[tuple[int, int, str, list[int], str | None]]:
    columns = given.transformations.select("topology_id", "id", "kind", "inputs", "uid").collect()
    return sorted(map(tuple, columns), key=repr)


EXPECTED = [(1, 1, "source", [], None), (1, 2, "sink", [1], None), (2, 1, "source", [], None)]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_plain_files_of_the_newest_version_are_read_without_delta(spark: SparkSession, folder, scheme):
    odd = folder.rename(folder.with_name("odd {name} [é]*"))
    given = load_topology_folder(spark, f"{scheme}{odd}")
    assert rows(given) == EXPECTED
    assert "delta" not in given.transformations._jdf.queryExecution().toString().lower()


def test_a_column_that_came_later_is_null_in_older_files(spark: SparkSession, folder):
    newer = TRANSFORMATIONS.slice(2).append_column("uid", pa.array(["u"]))
    write_deltalake(folder / "transformations", newer, mode="append", schema_mode="merge")
    found = rows(load_topology_folder(spark, str(folder)))
    assert found == sorted([*EXPECTED, (2, 1, "source", [], "u")], key=repr)


def test_a_partitioned_table_is_for_delta(spark: SparkSession, tmp_path):
    write_deltalake(tmp_path / "topologies", TOPOLOGIES)
    write_deltalake(tmp_path / "transformations", TRANSFORMATIONS, partition_by=["kind"])
    assert rows(load_topology_folder(spark, str(tmp_path))) == EXPECTED


def test_a_file_that_is_gone_is_an_error_of_the_table(spark: SparkSession, folder):
    for file in DeltaTable(folder / "transformations").file_uris():
        Path(file.removeprefix("file://")).unlink()
    with pytest.raises(InputError, match="transformations"):
        load_topology_folder(spark, str(folder))


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet"])
def test_files_that_spark_takes_for_hidden_are_for_delta(spark: SparkSession, folder, name):
    (log,) = (folder / "topologies" / "_delta_log").glob("*.json")
    (file,) = (folder / "topologies").glob("*.parquet")
    file.rename(file.with_name(name))
    log.write_text(log.read_text().replace(file.name, name))
    given = load_topology_folder(spark, str(folder)).topologies
    assert sorted(row["name"] for row in given.collect()) == ["a", "b"]


def test_files_of_another_folder_are_for_delta(spark: SparkSession, folder):
    (log,) = (folder / "topologies" / "_delta_log").glob("*.json")
    (file,) = (folder / "topologies").glob("*.parquet")
    elsewhere = file.rename(folder / file.name)
    log.write_text(log.read_text().replace(file.name, f"file:{elsewhere}"))
    given = load_topology_folder(spark, str(folder)).topologies
    assert sorted(row["name"] for row in given.collect()) == ["a", "b"]
