"""The columnar planner in Spark's workers gives the rows that it gives in one process."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from engine.choose_planner import LARGEST_OF_A_WORKER, Planner, choose_on_spark, choose_planner
from engine.plan_in_workers import plan_in_workers
from engine.plan_on_driver import plan_on_driver
from engine.plan_topologies import plan, read_topologies
from engine.planning_settings import planning_settings
from plans.columnar import packed_tables
from plans.columnar.packed_tables import pack, packed_rows, unpack
from plans.errors import ConfigurationError
from plans.schema import TABLES, require_schema
from plans.vocabulary import Layer
from tests.columnar.table_contents import rows_of
from tests.columnar.test_plan_columnar import GOLDEN, golden_lines
from tests.reference.random_topologies import MODES, random_topology

TOPOLOGIES = [random_topology(seed, 2 + seed * 7 % 40, mode=mode) for mode in MODES for seed in range(20)]
TOPOLOGIES += [line["topology"] for line in golden_lines(GOLDEN[0])[:40]]
WRONG = {"name": "wrong"}


@pytest.fixture(scope="module")
def in_one_process():
    return plan_on_driver([*TOPOLOGIES, WRONG])


@pytest.mark.parametrize("partitions", [1, 5])
def test_rows_are_those_of_one_process(spark, in_one_process, partitions):
    given = read_topologies(spark, [WRONG, *reversed(TOPOLOGIES)])
    with planning_settings(spark, partitions):
        planned = plan_in_workers(given, Layer.SLOTS, partitions)
    assert planned.inputs == in_one_process.inputs
    assert planned.tables.keys() == in_one_process.tables.keys()
    for name, rows in planned.tables.items():
        expected = rows_of(in_one_process.tables[name])
        assert rows_of(rows.toArrow()) == expected, name
        require_schema({f.name: f.dataType.simpleString() for f in rows.schema.fields}, name)
        assert [f.metadata for f in rows.schema.fields] == [f.metadata for f in TABLES[name].fields]
        assert expected or name == "co_location_groups"
    assert all(seconds >= 0 for seconds in planned.seconds.values())
    assert {"partition_topologies", "stream_nodes", "managed_memory"} <= planned.seconds.keys()
    planned.release()


def test_tables_of_both_forms_are_planned_as_they_came(spark, in_one_process):
    """Given as DataFrames, rows in any order."""
    of_form = F.col("form") == "transformations"
    tables = {name: spark.createDataFrame(rows) for name, rows in in_one_process.tables.items()}
    names = tables["topologies"].where(of_form).drop("fingerprint")
    given = [names.orderBy(F.xxhash64("name")), tables["transformations"].orderBy(F.rand(1))]
    planned = plan(given, spark=spark, planner=Planner.COLUMNAR)
    assert (planned.planner, planned.why) == ("columnar", "as asked")
    wanted = tables["job_edges"].join(names, "topology_id", "left_semi")
    assert rows_of(planned.tables["job_edges"].toArrow()) == rows_of(wanted.toArrow())
    planned.release()


def test_a_topology_that_no_worker_holds_is_for_joins():
    assert choose_on_spark(Planner.AUTO, LARGEST_OF_A_WORKER).planner is Planner.COLUMNAR
    beyond = choose_on_spark(Planner.AUTO, LARGEST_OF_A_WORKER + 1)
    assert (beyond.planner, beyond.on_spark) == (Planner.SPARK, True)
    assert f"{LARGEST_OF_A_WORKER + 1:,}" in beyond.why
    assert choose_on_spark(Planner.COLUMNAR, LARGEST_OF_A_WORKER + 1).planner is Planner.COLUMNAR
    assert choose_on_spark(Planner.SPARK, 1).planner is Planner.SPARK
    with pytest.raises(ConfigurationError, match="without Spark"):
        choose_on_spark(Planner.FLINK, 1)


def test_spark_is_taken_for_what_this_process_cannot_read_or_hold(tmp_path, monkeypatch):
    file = tmp_path / "t.jsonl"
    file.write_text("x" * 1_000)
    local = [str(file)], str(tmp_path / "store")
    assert choose_planner(Planner.AUTO, *local, wants_spark=False)[::2] == (Planner.COLUMNAR, False)
    assert choose_planner(Planner.COLUMNAR, *local, wants_spark=True)[::2] == (Planner.COLUMNAR, True)
    remote = choose_planner(Planner.AUTO, ["s3://b/t.jsonl"], "store", wants_spark=False)
    assert (remote.on_spark, remote.why) == (True, "s3://b/t.jsonl is not a local path")
    monkeypatch.setattr("engine.choose_planner.memory_bytes", lambda: 6_000)
    assert choose_planner(Planner.AUTO, *local, wants_spark=False).on_spark
    assert not choose_planner(Planner.COLUMNAR, *local, wants_spark=False).on_spark
    with pytest.raises(ConfigurationError, match="settings for Spark were given"):
        choose_planner(Planner.FLINK, *local, wants_spark=True)


def test_blocks_hold_so_many_rows_and_all_of_them(monkeypatch):
    monkeypatch.setattr(packed_tables, "ROWS_OF_A_BLOCK", 10)
    schema = pa.schema([("part", pa.int32()), ("id", pa.int64()), ("names", pa.list_(pa.string()))])
    rows = pa.table([[3] * 47, range(47), [None if i % 3 else [str(i)] for i in range(47)]], schema)
    for size in (1, 4, 10, 47):
        batches = [*rows.to_batches(max_chunksize=size), rows.schema.empty_table().to_batches()]
        blocks = list(pack("t")(b for b in batches if isinstance(b, pa.RecordBatch)))
        assert {(b["part"][0].as_py(), b["table"][0].as_py()) for b in blocks} == {(3, "t")}
        found = list(unpack(blocks))
        assert max(map(len, found)) <= 10
        assert pa.Table.from_batches(found).to_pylist() == rows.drop_columns(["part"]).to_pylist()


def test_no_rows_make_no_block():
    empty = pa.schema([("part", pa.int32()), ("id", pa.int64())]).empty_table()
    assert list(pack("t")(iter(empty.to_batches(max_chunksize=1)))) == []
    assert list(packed_rows(1, "t", empty)) == []
