"""Files of a store are small, and readers of one topology pass over the row groups of others."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.store.data_files import write_file

ROWS = [
    pa.table(
        {
            "topology": pa.array([first, first, first + 1], pa.int64()),
            "vertex_id": [f"{first:032x}", None, "é\u0000"],
            "uids": pa.array([["b", None], [], None], pa.list_(pa.string())),
            "is_source": [True, None, False],
        }
    )
    for first in (1, 7)
]


def test_numbers_have_statistics_and_texts_none(tmp_path: Path):
    file = tmp_path / write_file(str(tmp_path), "x", iter(ROWS), ROWS[0].schema)
    metadata = pq.ParquetFile(file).metadata
    assert metadata.num_row_groups == 2
    columns = [[metadata.row_group(group).column(i) for i in range(4)] for group in (0, 1)]
    assert {column.compression for group in columns for column in group} == {"ZSTD"}
    topologies = [group[0].statistics for group in columns]
    assert [(found.min, found.max) for found in topologies] == [(1, 2), (7, 8)]
    assert [group[3].statistics.null_count for group in columns] == [1, 1]
    assert [group[i].statistics for group in columns for i in (1, 2)] == [None] * 4


def test_what_is_read_is_what_was_written(tmp_path: Path):
    file = tmp_path / write_file(str(tmp_path), "x", iter(ROWS), ROWS[0].schema)
    assert pq.read_table(file) == pa.concat_tables(ROWS)
    for wanted, topologies in ((pl.col("topology") == 8, [8]), (pl.col("vertex_id") == f"{7:032x}", [7])):
        assert pl.scan_parquet(file).filter(wanted).collect()["topology"].to_list() == topologies
    assert pl.scan_parquet(file).filter(pl.col("vertex_id").is_null()).collect().height == 2


def test_numbers_and_ids_have_no_dictionary_and_other_texts_have_one(tmp_path: Path):
    resources = pa.struct([("cpu", pa.float64()), ("kinds", pa.list_(pa.string()))])
    schema = pa.schema(
        [
            ("topology", pa.int64()),
            ("vertex_id", pa.string()),
            ("name", pa.string()),
            ("uids", pa.list_(pa.string())),
            ("config", pa.map_(pa.string(), pa.string())),
            ("resources", resources),
        ]
    )
    rows = pa.table([[1], ["a"], ["b"], [["c"]], [[("d", "e")]], [{"cpu": 1.0, "kinds": ["f"]}]], schema)
    group = pq.ParquetFile(
        tmp_path / write_file(str(tmp_path), "x", iter([rows]), schema)
    ).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert {column.path_in_schema for column in columns if not column.has_dictionary_page} == {
        "topology",
        "vertex_id",
    }
    assert len(columns) == 8
