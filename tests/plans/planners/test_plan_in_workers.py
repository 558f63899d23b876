"""The columnar planner in Spark's workers gives the rows that it gives in one process."""

from itertools import chain
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.engine.library import session_topologies as choosing
from penstock.engine.library.session_topologies import GivenToSpark, planned_here
from penstock.engine.planning.chosen_costs import DRAWN
from penstock.engine.planning.plan_by_custom_planners import named_custom_planners, plan_by_custom_planners
from penstock.engine.planning.plan_in_process import plan_in_process, read_in_process
from penstock.engine.planning.plan_in_workers import plan_in_workers
from penstock.engine.planning.plan_on_spark import plan_on_spark, read_topologies
from penstock.engine.planning.planners import ChosenPlanner, Planner, choose_on_spark, choose_planner
from penstock.engine.planning.planning_settings import planning_settings
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.layers import DEFAULT_OPTIONS
from penstock.plans.planners import plan_packed_tables as packing
from penstock.plans.planners.plan_packed_tables import divide, packed_rows, unpack
from penstock.plans.tables import require_schema
from penstock.plans.topology.find_topology_files import examine_paths
from penstock.plans.topology.lines_batch import TopologyTexts, read_topology_texts
from penstock.plans.topology.on_spark.local_transformations import files_of_frame
from penstock.plans.topology.topologies_of_lines import topology_id
from tests.plans.planners.table_contents import rows_of
from tests.plans.planners.test_plan_columnar import GOLDEN, golden_lines
from tests.reference.random_topologies import MODES, random_topology

TOPOLOGIES = [random_topology(seed, 2 + seed * 7 % 40, mode=mode) for mode in MODES for seed in range(20)]
TOPOLOGIES += [line["topology"] for line in golden_lines(GOLDEN[0])[:40]]
WRONG = {"name": "wrong"}
GIVEN = ("topologies", "transformations")
TEXTS = [("key", pa.int64()), ("ordinal", pa.int64()), ("value", pa.binary()), ("problem", pa.string())]


def no_rows(schema):
    return [pa.RecordBatch.from_pylist([], schema)]


@pytest.fixture(scope="module")
def in_one_process():
    return plan_in_process([*TOPOLOGIES, WRONG])


@pytest.mark.parametrize("partitions", [5])
def test_rows_are_those_of_one_process(spark, in_one_process, partitions):
    given = read_topologies(spark, [WRONG, *reversed(TOPOLOGIES)])
    with planning_settings(spark, partitions):
        planned = plan_in_workers(given, DEFAULT_OPTIONS, partitions)
    assert planned.inputs == in_one_process.inputs
    assert planned.tables.keys() == in_one_process.tables.keys()
    for name, rows in planned.tables.items():
        expected = rows_of(in_one_process.tables[name])
        assert rows_of(rows.toArrow()) == expected, name
        require_schema({f.name: f.dataType.simpleString() for f in rows.schema.fields}, name)
        assert [f.metadata for f in rows.schema.fields] == [f.metadata for f in spark_schema(name).fields]
        assert expected or name == "co_location_groups"
    assert all(seconds >= 0 for seconds in planned.seconds.values())
    assert {"partition_topologies", "stream_nodes", "managed_memory"} <= planned.seconds.keys()
    planned.release()


@pytest.mark.parametrize("planner", ["penstock.engine.examples.chain_equal_costs:chain", "no_planner:raises"])
def test_planners_of_others_decide_in_workers_as_in_one_process(spark, planner, tmp_path, monkeypatch):
    source = "import penstock\n@penstock.decides('chaining')\ndef raises(stream_edges): raise ValueError(3)\n"
    (tmp_path / "no_planner.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    custom_planners = named_custom_planners(planner, DRAWN, 60)
    read = read_in_process(TOPOLOGIES[::6])
    question = custom_planners.question(read.topologies)
    expected = plan_by_custom_planners(read, custom_planners.chosen, question=question)
    given = read_topologies(spark, TOPOLOGIES[::6])
    with planning_settings(spark, 2):
        planned = plan_in_workers(given, DEFAULT_OPTIONS, 2, custom_planners=custom_planners)
    for name, rows in planned.tables.items():
        assert rows_of(rows.toArrow()) == rows_of(expected.tables[name]), name
    assert (expected.planned > 0) == (planner != "no_planner:raises")
    planned.release()


def test_given_tables_are_validated_and_planned_by_the_same_call(spark, in_one_process):
    """Rows in any order, some of them wrong: rows of no topology or of a null one, a name on two rows."""
    tables = {name: spark.createDataFrame(in_one_process.tables[name]) for name in GIVEN}
    topologies = tables["topologies"].where("form = 'transformations'").drop("fingerprint")
    first, second, third = (row["topology_id"] for row in topologies.orderBy("topology_id").take(3))
    rows = tables["transformations"]
    broken = F.when(F.col("topology_id") == first, "one_imput").otherwise(F.col("kind"))
    rows = rows.withColumn("kind", broken).unionByName(
        rows.where(F.col("topology_id") == second).withColumn("topology_id", F.lit(None).cast("long"))
    )
    topologies = topologies.where(F.col("topology_id") != second)
    topologies = topologies.unionByName(topologies.where(F.col("topology_id") == third))
    given = [topologies.orderBy(F.xxhash64("name")), rows.orderBy(F.xxhash64("topology_id", "id", "name"))]
    planned = plan_on_spark(given, spark=spark, planner=Planner.COLUMNAR)
    expected = plan_in_process([table.toArrow() for table in given])
    assert (planned.planner, planned.why) == ("workers", "as asked")
    assert (planned.inputs, planned.planned, planned.rejected) == (
        expected.inputs,
        expected.planned,
        expected.rejected,
    )
    for name, table in planned.tables.items():
        assert rows_of(table.toArrow()) == rows_of(expected.tables[name]), name
    kinds = {error["error"] for row in expected.tables["rejected"].to_pylist() for error in row["errors"]}
    assert {"UnknownKind", "NoTopology", "DuplicateTopologyName"} <= kinds
    assert planned.seconds["read_and_validate"] > 0
    planned.release()


def test_workers_read_the_files_of_frames_that_are_just_files(spark, in_one_process, tmp_path):
    paths = []
    for place, name in enumerate(GIVEN):
        rows = in_one_process.tables[name].drop_columns(["fingerprint"] if name == "topologies" else [])
        if name == "topologies":
            rows = rows.filter(pc.field("form") == "transformations")
        (tmp_path / name).mkdir()
        paths.append([str(tmp_path / name / f"a%20b {half}.parquet") for half in range(2 - place)])
        for half, path in enumerate(paths[-1]):
            pq.write_table(rows.slice(half * 30, 30 if len(paths[-1]) > 1 and not half else None), path)
    topologies, rows = (spark.read.parquet(f"{tmp_path}/{name}") for name in GIVEN)
    assert (sorted(files_of_frame(topologies)), files_of_frame(rows)) == (paths[0], tuple(paths[1]))
    others = [
        *(rows.limit(5), rows.where("id > 1"), rows.drop("uid"), rows.withColumn("id", F.col("id") + 1)),
        *(spark.read.parquet(*paths[1], *paths[1]), spark.read.schema("id int").parquet(*paths[1])),
        spark.read.schema(StructType([*rows.schema, StructField("more", IntegerType())])).parquet(*paths[1]),
        spark.range(3),
    ]
    assert [files_of_frame(other) for other in others] == [()] * len(others)
    planned = plan_on_spark((topologies, rows), spark=spark, planner=Planner.WORKERS)
    expected = plan_in_process([topologies.toArrow(), rows.toArrow()])
    assert (planned.inputs, planned.planned, planned.rejected) == (
        expected.inputs,
        expected.planned,
        expected.rejected,
    )
    assert planned.planned > 50
    for name, table in planned.tables.items():
        assert rows_of(table.toArrow()) == rows_of(expected.tables[name]), name
    planned.release()


def test_a_topology_that_no_worker_holds_is_for_joins():
    def chosen(asked: Planner, largest: int, most_tasks: int = 0, worker_bytes: int = 2**30):
        return choose_on_spark(asked, largest, most_tasks, lambda: worker_bytes)

    assert chosen(Planner.AUTO, 150_000).planner is Planner.COLUMNAR
    beyond = chosen(Planner.AUTO, 1_000_000)
    assert (beyond.planner, beyond.on_spark) == (Planner.BLOCKS, True)
    assert "1,000,000 transformations" in beyond.why
    assert "a worker of Spark has 1.00 GiB" in beyond.why
    assert chosen(Planner.AUTO, 1_000_000, worker_bytes=2**33).planner is Planner.COLUMNAR
    assert chosen(Planner.COLUMNAR, 1_000_000).planner is Planner.COLUMNAR
    wide = chosen(Planner.AUTO, 1_000, 10_000_000)
    assert (wide.planner, "10,000,000 tasks" in wide.why) == (Planner.BLOCKS, True)
    assert chosen(Planner.JOINS, 1).planner is Planner.JOINS
    asked = (Planner.AUTO, Planner.COLUMNAR, Planner.WORKERS, Planner.JOINS, Planner.BLOCKS)
    assert [chosen(planner, 1).name for planner in asked] == [*["workers"] * 3, *["blocks"] * 2]
    assert ChosenPlanner(Planner.COLUMNAR, "").name == "process"
    with pytest.raises(ConfigurationError, match="without Spark"):
        chosen(Planner.FLINK, 1)


def test_small_topologies_need_no_look_at_the_workers():
    def never() -> int:
        raise AssertionError

    assert choose_on_spark(Planner.AUTO, 50_000, 0, never).planner is Planner.COLUMNAR


def test_topologies_of_a_session_are_planned_where_it_costs_less(monkeypatch):
    """By rows, cores, the driver's heap, and memory; on a cluster, the cores are its own."""
    monkeypatch.setattr(choosing, "parts_at_once", lambda: 2)
    monkeypatch.setattr(choosing, "require_memory_to_plan", lambda *_: None)

    def here(transformations: int, cores: int, heap: int = 2**30, bytes_: int = 1) -> bool:
        given = GivenToSpark(transformations, transformations // 3, bytes_)
        return planned_here(given, cores, heap) is not None

    assert all(here(rows, cores) for rows in (0, 6_000) for cores in (1, 2, 100))
    assert here(10_000_000, 1), "one core of Spark is never faster"
    assert [here(rows, 4) for rows in (50_000, 3_000_000)] == [True, False]
    assert [here(60_000, cores) for cores in (2, 64)] == [True, False]
    assert [here(60_000, 2, bytes_=size) for size in (2**27, 2**27 + 1)] == [True, False]
    assert here(60_000, 2, heap=2**33, bytes_=2**30)
    assert str(planned_here(GivenToSpark(60_000, 20_000), 2, None)).startswith("takes about")

    def too_large(*_: Any) -> None:
        raise NotEnoughMemoryError("none")

    monkeypatch.setattr(choosing, "require_memory_to_plan", too_large)
    assert not here(6_000, 2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_texts_in_any_order_are_read_alike(seed):
    """Of equal names the first by ordinal counts; of equal ordinals of one name, the first by text."""
    names = ["a", "b", "a", "c", "b", "a", "", "d"]
    ordinals = [place << 41 for place in (9, 4, 3, 4, 4, 3, 1, 1)]
    texts = [
        orjson.dumps(
            {"name": name, "parallelism": place + 1, "transformations": [{"id": 1, "kind": "source"}]}
        )
        for place, name in enumerate(names)
    ]
    columns = [list(map(topology_id, names)), ordinals, texts, [None] * len(names)]
    table = pa.table(columns, schema=pa.schema(TEXTS))
    read = read_topology_texts(TopologyTexts(table.take(np.random.default_rng(seed).permutation(len(names)))))
    planned = read.topologies.sort("name").select("name", "parallelism").rows()
    assert planned == [("a", 3), ("b", 2), ("c", 4), ("d", 8)]
    found = sorted(error["found"] for row in read.rejected["errors"].to_list() for error in row)
    assert found[1:3] == ["name a, which another row has"] * 2
    assert (read.inputs, len(read.rejected)) == (8, 4)


def test_spark_is_taken_for_what_this_process_cannot_read(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text("x" * 1_000)
    local = examine_paths([str(file)])
    assert choose_planner(Planner.AUTO, local)[::2] == (Planner.COLUMNAR, False)
    assert choose_planner(Planner.COLUMNAR, local, wants_spark=True)[::2] == (Planner.COLUMNAR, True)
    remote = choose_planner(Planner.AUTO, examine_paths(["s3://b/t.jsonl"]))
    assert (remote.on_spark, remote.why) == (True, "s3://b/t.jsonl is not a local path")
    with pytest.raises(ConfigurationError, match="settings for Spark were given"):
        choose_planner(Planner.FLINK, local, wants_spark=True)


@pytest.mark.parametrize("size", [1, 4, 10, 47])
@pytest.mark.parametrize(("at_once", "of_a_block"), [(1, 10), (20, 3), (100, 10), (100, 100)])
def test_rows_are_divided_by_topology_into_blocks(monkeypatch, size, at_once, of_a_block):
    monkeypatch.setattr(packing, "ROWS_TO_DIVIDE", at_once)
    monkeypatch.setattr(packing, "ROWS_OF_A_BLOCK", of_a_block)
    ids = [None if i == 5 else (i % 11 - 5) * 10**15 for i in range(47)]
    names = [None if i % 3 else [str(i), None] for i in range(47)]
    weights = [[("OPERATOR", i)] if i % 5 else [] for i in range(47)]
    kinds = {"names": pa.list_(pa.string()), "weights": pa.map_(pa.string(), pa.int32())}
    schema = pa.schema([("topology_id", pa.int64()), *kinds.items()])
    rows = pa.table([ids, names, weights], schema)
    blocks = list(divide("t", 3)(iter([*rows.to_batches(max_chunksize=size), *no_rows(schema)])))
    assert {b["table"][0].as_py() for b in blocks} == {"t"}
    found: dict[int, list[dict[str, Any]]] = {}
    for block in blocks:
        (of_block,) = unpack([block])
        assert len(of_block) <= of_a_block
        found.setdefault(block["part"][0].as_py(), []).extend(of_block.to_pylist())
    assert {part: [row["topology_id"] for row in of_part] for part, of_part in found.items()} == {
        part: [i for i in ids if (i or 0) % 3 == part] for part in range(3)
    }
    assert sorted(map(str, chain.from_iterable(found.values()))) == sorted(map(str, rows.to_pylist()))


def test_no_rows_make_no_block():
    schema = pa.schema([("topology_id", pa.int64())])
    assert list(divide("t", 3)(iter(no_rows(schema)))) == []
    assert list(packed_rows(1, "t", schema.empty_table())) == []
