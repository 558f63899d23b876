"""Files of given transformations that workers read themselves."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.topology.on_spark import local_transformations as files
from penstock.plans.topology.on_spark.local_transformations import (
    files_of_table,
    local_transformations,
    read_row_groups,
)

ROWS = pa.table(
    {
        "topology_id": pa.array([1] * 6, pa.int64()),
        "id": pa.array(range(6), pa.int32()),
        "kind": ["source", *["one_input"] * 5],
        "name": ["a", None, "c", "d", "e", "f"],
        "inputs": pa.array([[], [0], None, [2], [3], [4]], pa.list_(pa.int32())),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "a%20b" / "transformations"
    folder.mkdir(parents=True)
    return folder


def read(table: Path) -> list[pa.Table] | None:
    """The rows of each task; None if they are for Spark to read."""
    tasks = local_transformations(files_of_table(table))
    if tasks is None:
        return None
    run = read_row_groups(tasks)
    numbers = (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(len(tasks)))
    return [pa.Table.from_batches(run(iter([number]))) for number in numbers]


@pytest.mark.parametrize("rows_of_a_task", [1, 2, 4, 100])
def test_tasks_have_all_rows_once_with_what_columns_have_by_default(table, monkeypatch, rows_of_a_task):
    monkeypatch.setattr(files, "ROWS_OF_A_TASK", rows_of_a_task)
    pq.write_table(ROWS.slice(0, 4), table / "1.parquet", row_group_size=2)
    pq.write_table(ROWS.slice(4), table / "2.parquet", row_group_size=1)
    found = read(table)
    assert found is not None
    assert len(found) == {1: 4, 2: 3, 4: 2, 100: 1}[rows_of_a_task]
    rows = pa.concat_tables(found)
    assert rows.schema.names == TRANSFORMATIONS.names
    assert rows["id"].to_pylist() == list(range(6))
    assert rows["name"].to_pylist() == ["a", "", "c", "d", "e", "f"]
    assert rows["inputs"].to_pylist() == [[], [0], [], [2], [3], [4]]
    assert (rows["managed_memory"].to_pylist(), rows["uid"].null_count) == ([[]] * 6, 6)


@pytest.mark.parametrize(
    "other",
    [
        ROWS.append_column("colour", ROWS["name"]),
        ROWS.append_column("uid", ROWS["name"]),
        ROWS.set_column(1, "id", ROWS["id"].cast(pa.int64())),
    ],
)
def test_files_with_other_columns_are_for_spark(table, other):
    pq.write_table(ROWS, table / "1.parquet")
    pq.write_table(other, table / "2.parquet")
    assert read(table) is None


def test_what_is_more_than_files_is_for_spark(table, monkeypatch):
    assert read(table) is None
    (table / "kind=sink").mkdir()
    pq.write_table(ROWS, table / "1.parquet")
    assert read(table) is None
    (table / "kind=sink").rmdir()
    assert read(table) is not None
    monkeypatch.setattr(files, "MOST_FILES", 0)
    assert read(table) is None


def test_delta_tables_have_the_files_of_their_newest_version(table, tmp_path):
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / "00000000000000000000.json").touch()
    pq.write_table(ROWS, table / "1.parquet")
    assert read(table) is None
    table = tmp_path / "a b" / "transformations"
    write_deltalake(table, ROWS)
    write_deltalake(table, ROWS.slice(0, 2), mode="overwrite")
    found = read(table)
    assert found is not None
    assert [len(rows) for rows in found] == [2]
    write_deltalake(table, ROWS, mode="overwrite", partition_by=["kind"], schema_mode="overwrite")
    assert read(table) is None
