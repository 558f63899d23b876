import datetime
import json
import struct
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.commit_delta import DeltaSink
from penstock.operators.connectors.delta_source import DeltaSource
from tests.operators.connectors.run_connectors import (
    context,
    files_in,
    read_batches,
    read_subtasks,
    read_values,
    stage,
    travel,
    write,
)

ROWS = Types.ROW_NAMED(["n", "s", "day"], [Types.LONG(), Types.STRING(), Types.SQL_DATE()])


def rows(first, after):
    return [
        Row(number, None if number % 10 == 0 else f"s{number}", datetime.date(2024, 1, 1 + number % 3))
        for number in range(first, after)
    ]


def content(path, **options):
    table = pa.RecordBatchReader.from_stream(DeltaTable(path, **options).scan()).read_all()
    return sorted(tuple(row.values()) for row in table.select(["n", "s", "day"]).to_pylist())


def expected(first, after):
    return [tuple(row) for row in rows(first, after)]


def parquet_files(folder):
    return [name for name in files_in(folder) if name.endswith(".parquet")]


def test_a_job_is_one_transaction(tmp_path):
    path = str(tmp_path / "t")
    write(DeltaSink(path, ROWS), [[rows(0, 10), rows(10, 500)], [], [rows(500, 1000)]], ROWS)
    assert content(path) == expected(0, 1000)
    assert DeltaTable(path).version() == 0
    write(DeltaSink(path, ROWS), [[rows(1000, 1100)], [rows(1100, 1200)]], ROWS)
    assert content(path) == expected(0, 1200)
    assert DeltaTable(path).version() == 1
    assert [name for name in parquet_files(tmp_path / "t") if "/" in name] == []


def test_statistics_are_in_the_log(tmp_path):
    write(DeltaSink(str(tmp_path), ROWS), [[rows(1, 500)]])
    (action,) = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).to_pylist()
    assert action["num_records"] == 499
    assert (action["min.n"], action["max.n"], action["null_count.s"]) == (1, 499, 49)
    assert (action["min.day"], action["max.day"]) == (datetime.date(2024, 1, 1), datetime.date(2024, 1, 3))
    log = (tmp_path / "_delta_log" / "00000000000000000000.json").read_text()
    assert [json.loads(line)["txn"]["version"] for line in log.splitlines() if '"txn"' in line] == [1]


def test_nothing_is_visible_before_the_commit_and_the_second_commit_does_nothing(tmp_path):
    path = str(tmp_path)
    write(DeltaSink(path, ROWS), [[rows(0, 5)]])
    started = DeltaSink(path, ROWS).start("run-1")
    lost = started.writer(context(attempt=0))
    lost.write(rows(100, 200), None)
    first_attempt = stage(started, [[rows(5, 10)]], attempt=0)
    second_attempt = stage(started, [[rows(5, 10)]], attempt=1)
    lost.finish()
    assert content(path) == expected(0, 5)
    assert len(parquet_files(tmp_path)) == 4
    started.commit(second_attempt)
    assert content(path) == expected(0, 10)
    assert len(parquet_files(tmp_path)) == 2
    assert first_attempt[0].target not in parquet_files(tmp_path)
    DeltaSink(path, ROWS).start("run-1").commit(second_attempt)
    assert content(path) == expected(0, 10)
    assert DeltaTable(path).version() == 1
    started.abort()
    assert content(path) == expected(0, 10)


def test_an_aborted_job_leaves_nothing(tmp_path):
    path = str(tmp_path)
    started = DeltaSink(path, ROWS).start()
    stage(started, [[rows(0, 10)], [rows(10, 20)]])
    writer = started.writer(context(subtask=2))
    writer.write(rows(20, 30), None)
    writer.abort()
    assert len(parquet_files(tmp_path)) == 2
    started.abort()
    assert files_in(tmp_path) == []
    assert not DeltaTable.is_deltatable(path)


def test_modes(tmp_path):
    path = str(tmp_path)
    write(DeltaSink(path, ROWS, "error"), [[rows(0, 5)]])
    write(DeltaSink(path, ROWS, "ignore"), [[rows(5, 10)]])
    assert content(path) == expected(0, 5)
    assert len(parquet_files(tmp_path)) == 1
    with pytest.raises(ValueError, match="already"):
        DeltaSink(path, ROWS, "error").start()
    write(DeltaSink(path, ROWS, "overwrite"), [[rows(7, 9)]])
    assert content(path) == expected(7, 9)
    assert content(path, version=0) == expected(0, 5)
    write(DeltaSink(path, ROWS, "overwrite"), [[]])
    assert content(path) == []
    with pytest.raises(ValueError, match="must be one of append"):
        DeltaSink(path, ROWS, "merge")  # type: ignore[arg-type]


def test_a_table_made_meanwhile(tmp_path):
    for mode, found in (("append", expected(0, 10)), ("ignore", expected(0, 5))):
        path = str(tmp_path / mode)
        started = DeltaSink(path, ROWS, mode).start()  # type: ignore[arg-type]
        staged = stage(started, [[rows(5, 10)]])
        write(DeltaSink(path, ROWS), [[rows(0, 5)]])
        started.commit(staged)
        assert content(path) == found
    path = str(tmp_path / "error")
    started = DeltaSink(path, ROWS, "error").start()
    staged = stage(started, [[rows(5, 10)]])
    write(DeltaSink(path, ROWS), [[rows(0, 5)]])
    with pytest.raises(ValueError, match="since the job started"):
        started.commit(staged)
    assert content(path) == expected(0, 5)
    assert len(parquet_files(tmp_path / "error")) == 1


def test_a_job_without_records_makes_an_empty_table(tmp_path):
    write(DeltaSink(str(tmp_path), ROWS), [[], []])
    assert content(str(tmp_path)) == []
    write(DeltaSink(str(tmp_path), ROWS), [[], []])
    assert DeltaTable(str(tmp_path)).version() == 0


def test_other_columns_are_refused_before_the_job_runs(tmp_path):
    write(DeltaSink(str(tmp_path), ROWS), [[rows(0, 5)]])
    other = Types.ROW_NAMED(["n", "s", "day"], [Types.INT(), Types.STRING(), Types.SQL_DATE()])
    with pytest.raises(ValueError, match="has the columns"):
        DeltaSink(str(tmp_path), other).start()
    with pytest.raises(ValueError, match="partitioned by"):
        DeltaSink(str(tmp_path), ROWS, partition_by=["s"]).start()
    with pytest.raises(ValueError, match="partition_by must be"):
        DeltaSink(str(tmp_path), ROWS, partition_by=["zz"])
    with pytest.raises(TypeError, match="times of day"):
        DeltaSink(str(tmp_path), Types.ROW([Types.SQL_TIME()]))
    with pytest.raises(TypeError, match="declared type"):
        DeltaSink(str(tmp_path), Types.PICKLED_BYTE_ARRAY())


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_partitioned_tables(tmp_path, parallelism):
    path = str(tmp_path)
    typed = Types.ROW_NAMED(
        ["n", "p", "q", "at"], [Types.LONG(), Types.STRING(), Types.INT(), Types.SQL_TIMESTAMP()]
    )
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 600000)
    values = [Row(number, ["a", "b/c %20=d", None][number % 3], number % 2, moment) for number in range(60)]
    write(
        DeltaSink(path, typed, partition_by=["p", "q", "at"]), [[values[:20], values[20:40]], [values[40:]]]
    )
    actions = pa.table(DeltaTable(path).get_add_actions()).to_pylist()
    assert len(actions) == 12
    assert {(one["partition"]["p"], one["partition"]["q"]) for one in actions} == {
        (p, q) for p in ("a", "b/c %20=d", None) for q in (0, 1)
    }
    source = DeltaSource(path)
    found = read_subtasks(source, parallelism)
    assert Counter(tuple(row) for some in found for row in some) == Counter(map(tuple, values))
    assert all(found)
    assert sum(batch.num_rows for batch in read_batches(source, parallelism)) == 60
    scanned = pa.RecordBatchReader.from_stream(DeltaTable(path).scan()).read_all().to_pylist()
    assert sorted(one["n"] for one in scanned) == list(range(60))
    assert {one["at"] for one in scanned} == {moment}


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_table_that_others_wrote(tmp_path, parallelism):
    path = str(tmp_path)
    table = pa.table({"n": list(range(3000)), "p": [f"v {one % 4}%" for one in range(3000)]})
    write_deltalake(path, table, partition_by=["p"])
    write_deltalake(
        path, pa.table({"n": [5000], "p": [None], "new": [1.5]}), mode="append", schema_mode="merge"
    )
    DeltaTable(path).delete("n < 100")
    source = DeltaSource(path)
    assert source.type_info.get_field_names() == ["n", "p", "new"]
    found = [tuple(row) for row in read_values(source, parallelism)]
    assert sorted(found) == [(one, f"v {one % 4}%", None) for one in range(100, 3000)] + [(5000, None, 1.5)]
    old = DeltaSource(path, version=0)
    assert sorted(row[0] for row in read_values(old, parallelism)) == list(range(3000))


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def deletion_vector(rows):
    """The log's entry for a vector of some rows below 65536, inline; see the protocol's appendix."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    padded = data + bytes(-len(data) % 4)
    text = "".join(
        _Z85[number // 85**place % 85]
        for (number,) in struct.iter_unpack(">I", padded)
        for place in (4, 3, 2, 1, 0)
    )
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def test_deletion_vectors_take_rows_out(tmp_path):
    folder = tmp_path / "a table"
    table = pa.table({"n": list(range(10_000)), "p": ["x y%"] * 10_000})
    on = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(folder), table, partition_by=["p"], configuration=on)
    write_deltalake(str(folder), pa.table({"n": [10_000], "p": ["x y%"]}), mode="append")
    log = folder / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (add,) = [action["add"] for action in actions if "add" in action]
    gone = [0, 4095, 4096, 9999]
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    new = [{"remove": remove}, {"add": {**add, "deletionVector": deletion_vector(gone)}}]
    (log / f"{2:020}.json").write_text("".join(json.dumps(action) + "\n" for action in new))
    for path in (str(folder), folder.as_uri()):
        found = [row[0] for row in read_values(DeltaSource(path), 2)]
        assert sorted(found) == [number for number in range(10_001) if number not in gone]
    assert sorted(row[0] for row in read_values(DeltaSource(str(folder), version=1))) == list(range(10_001))


def test_tables_with_unknown_features_are_refused(tmp_path, monkeypatch):
    write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    monkeypatch.setattr(
        "penstock.operators.connectors.delta_source._features", lambda table: {"catalogManaged"}
    )
    with pytest.raises(ValueError, match="uses catalogManaged"):
        DeltaSource(str(tmp_path))


def test_all_kinds_of_columns_come_back(tmp_path):
    typed = Types.ROW_NAMED(
        ["i", "dec", "at", "ts", "l", "m", "r", "b"],
        [
            Types.SHORT(),
            Types.BIG_DEC(),
            Types.INSTANT(),
            Types.SQL_TIMESTAMP(),
            Types.LIST(Types.INSTANT()),
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.ROW_NAMED(["x"], [Types.SQL_TIMESTAMP()]),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
        ],
    )
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)
    values = [
        Row(1, Decimal("1.5"), Instant(5, 6000), moment, [Instant(1, 0)], {"k": 1}, Row(moment), b"x"),
        Row(*[None] * 8),
    ]
    write(DeltaSink(str(tmp_path), typed), [[values]], typed)
    (first, second) = read_values(travel(DeltaSource(str(tmp_path))))
    assert (first[:2], second[:]) == ([1, Decimal("1.500000000000000000")], [None] * 8)
    assert (first["at"], first["ts"], first["l"], first["m"]) == (
        Instant(5, 6000),
        moment,
        [Instant(1, 0)],
        {"k": 1},
    )
    assert (first["r"]["x"], first["b"]) == (moment, b"x")
