"""Giants on Spark: the rows of one process from whatever they are given as, in few jobs and exchanges."""

import gzip
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.engine.library.planned_tables import by_text
from penstock.engine.planning import plan_giants
from penstock.engine.planning import plan_on_spark as on_spark
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_in_workers import Size
from penstock.engine.planning.plan_on_spark import plan_on_spark
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import Planner
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.plans.blocks import run_blocks
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.spark_schemas import keep_with_lineage
from penstock.plans.layers import PlanOptions
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer
from tests.plans.blocks.shapes import doubling_unions, graph_with_gaps
from tests.plans.planners.table_contents import exchanges_of, rows_of
from tests.reference.random_topologies import random_topology

counts = attrgetter("inputs", "planned", "rejected")

BLOCK = 4_096  # the least of rows that are not validated


def wide(name: str, readers: int, **of_last: Any) -> dict[str, Any]:
    """Everything that may need a stage of its own: named groups, cut chains, virtual transformations."""
    rows: list[dict[str, Any]] = [
        {"id": 1, "kind": "legacy_source", "name": "l"},
        {"id": 2, "kind": "source", "name": "s", "slot_sharing_group": "g"},
        {"id": 3, "kind": "union", "inputs": [1, 2]},
    ]
    for number in range(4, readers + 4, 4):
        rows += [
            {"id": number, "kind": "one_input", "name": f"m{number}", "inputs": [3 if number % 8 else 1]},
            {"id": number + 1, "kind": "async", "name": "a", "inputs": [number], "uid": f"u{number}"},
            {"id": number + 2, "kind": "partition", "inputs": [number + 1], "partitioner": "hash"},
            {"id": number + 3, "kind": "sink", "name": "k", "inputs": [number + 2]},
        ]
    rows[-1] |= of_last
    return {"name": name, "parallelism": 2, "transformations": rows}


GIANT = wide("giant", 9_000)
FLEET = [random_topology(seed, 12) for seed in range(6)]


@pytest.fixture(autouse=True)
def _giants_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "OF_GIANTS", Size(60, 2**40))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Exchanges of what is planned in blocks."""
    counts = {"exchanges": 0}
    said = run_blocks._said

    def counted_keep(rows: DataFrame) -> DataFrame:
        counts["exchanges"] += exchanges_of(rows)
        return keep_with_lineage(rows)

    def counted_said(rows: DataFrame) -> Any:
        counts["exchanges"] += exchanges_of(rows)
        return said(rows)

    monkeypatch.setattr(run_blocks, "keep_with_lineage", counted_keep)
    monkeypatch.setattr(run_blocks, "_said", counted_said)
    return counts


def written_as_tables(
    folder: Path,
    topologies: list[dict[str, Any]],
    change: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
) -> Path:
    """The tables that generated giants come in, with changed transformations."""
    given = plan_in_process(topologies, PlanOptions(Layer.TOPOLOGY)).tables
    rows = given["transformations"]
    if change is not None:
        columns = change(from_arrow(rows)).to_arrow(compat_level=pl.CompatLevel.oldest()).columns
        rows = pa.table(columns, pa.schema([field.with_nullable(True) for field in rows.schema]))
    write_deltalake(folder / "topologies", given["topologies"])
    write_deltalake(folder / "transformations", rows)
    return folder


def found_in(planned: PlanResult) -> dict[str, list[str]]:
    return {table: rows_of(rows.toArrow(), _WITHOUT) for table, rows in planned.tables.items()}


def expected_of(topologies: Any) -> dict[str, list[str]]:
    return {table: rows_of(rows, _WITHOUT) for table, rows in plan_in_process(topologies).tables.items()}


_WITHOUT = ("source_file", "source_line")


def test_a_giant_goes_into_a_store_by_three_jobs_and_twenty_exchanges(
    spark: SparkSession, tmp_path: Path, seen: dict[str, int]
):
    folder, store = written_as_tables(tmp_path / "given", [GIANT]), tmp_path / "store"
    spark.sparkContext.setJobGroup("a giant", "")
    stored = plan_on_spark([str(folder)], plan_options(), str(store), spark=spark, planner=Planner.BLOCKS)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("a giant")
    spark.sparkContext.setJobGroup("others", "")
    assert counts(stored) == (1, 1, 0)
    assert len(jobs) <= 3
    assert 10 < seen["exchanges"] <= 20
    found = read_plan(DeltaRsTables(str(store)))
    planned = plan_in_process(str(folder))
    assert found.keys() == planned.tables.keys()
    for name, table in planned.tables.items():
        assert rows_of(found[name]) == rows_of(table), name


def test_frames_in_any_order_with_others_and_wrong_rows_beside_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    details = wide("rare keys", 80, node_id=7_000)
    details["transformations"][3] |= {"keyed": [True], "parallelism": 3, "parallelism_configured": False}
    topologies = [GIANT, wide("refused", 80, uid=""), *FLEET[:3], wide("wrong", 80), details]
    given = dict(plan_in_process(topologies, PlanOptions(Layer.TOPOLOGY)).tables)
    names = given["topologies"].select([TOPOLOGY, "name"]).to_pylist()
    (wrong,) = (row[TOPOLOGY] for row in names if row["name"] == "wrong")
    rows = from_arrow(given["transformations"])
    is_wrong = (pl.col(TOPOLOGY) == wrong) & (pl.col("id") == 20)
    parallelism = pl.when(is_wrong).then(pl.lit(-7, pl.Int32)).otherwise("parallelism")
    given["transformations"] = to_arrow(rows.with_columns(parallelism=parallelism), "transformations")
    tables = [given[table] for table in ("topologies", "transformations")]
    frames = [spark.createDataFrame(table).orderBy(F.rand(1)).repartition(3) for table in tables]
    monkeypatch.setattr(plan_giants, "_rows_of_a_block", lambda size, cores: BLOCK)
    planned = plan_on_spark((frames[0], frames[1]), spark=spark, planner=Planner.JOINS)
    found = found_in(planned)
    expected = expected_of((tables[0], tables[1]))
    assert (planned.planned, planned.rejected) == (len(expected["topologies"]), len(expected["rejected"]))
    planned.release()
    assert [table for table in expected if found[table] != expected[table]] == []
    assert len(expected["rejected"]) >= 2


FLEET_WITH_GIANTS = [GIANT, wide("other", 400), wide("refused", 9_000, uid="u4"), *FLEET[:3]]


def test_giants_among_a_fleet_go_into_a_store_with_the_fleet(spark: SparkSession, tmp_path: Path):
    folder, store = written_as_tables(tmp_path / "given", FLEET_WITH_GIANTS), tmp_path / "store"
    stored = [
        plan_on_spark([str(folder)], plan_options(), str(store), spark=spark, planner=Planner.BLOCKS)
        for _ in range(2)
    ]
    planned = plan_in_process(str(folder))
    assert [(made.version, *counts(made)) for made in stored] == [
        (1, 6, planned.planned, planned.rejected)
    ] * 2, "the second plan is the same version"
    assert planned.rejected
    found = read_plan(DeltaRsTables(str(store)))
    assert [table for table, rows in planned.tables.items() if rows_of(found[table]) != rows_of(rows)] == []
    files = list((store / "execution_vertices").glob("write_id=*/*.parquet"))
    assert len(files) >= 2, "workers write a file for each block of a giant, and one for the others"


def test_rows_of_a_frame_with_a_giant_that_another_row_names(spark: SparkSession):
    """The first by a hash of its text is planned, in blocks or whole, as in one process."""
    topologies = [GIANT, wide("twin", 300), wide("twin", 40), wide("small", 8)]
    keys = ("id", "kind", "name", "inputs", "uid", "slot_sharing_group", "partitioner")
    row = "id int, kind string, name string, inputs array<int>, uid string, slot_sharing_group string"
    rows = [
        (topology["name"], 2, [tuple(map(entry.get, keys)) for entry in topology["transformations"]])
        for topology in topologies
    ]
    columns = f"name string, parallelism int, transformations array<struct<{row}, partitioner string>>"
    given = spark.createDataFrame(rows, columns)
    here = penstock.plan(given, planner="process")
    on_spark = plan_on_spark(given.repartition(3), spark=spark, planner=Planner.BLOCKS)
    found = found_in(on_spark)
    on_spark.release()
    assert [
        name for name in found if found[name] != rows_of(by_text(here.tables)[name].toArrow(), _WITHOUT)
    ] == []
    assert (here.planned, here.rejected) == (3, 1)


@pytest.mark.parametrize("blocks", [1, 5])
def test_lines_in_blocks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int):
    file = tmp_path / "topologies.jsonl.gz"
    topologies = [
        wide("giant", 200),
        wide("refused", 80, uid=""),
        wide("sinks", 80, writer={}, committer={}),
        graph_with_gaps(70),
        doubling_unions(70),
        *FLEET[:2],
    ]
    with gzip.open(file, "wb") as opened:
        opened.write(b"\n".join(map(orjson.dumps, [*topologies, {"name": "wrong", "transformations": [{}]}])))
    monkeypatch.setattr(plan_giants, "_rows_of_a_block", lambda size, cores: -(-size.rows // blocks))
    planned = plan_on_spark(str(file), spark=spark, planner=Planner.JOINS)
    found = found_in(planned)
    planned.release()
    expected = expected_of(str(file))
    assert [table for table in expected if found[table] != expected[table]] == []
    assert (len(expected["topologies"]), len(expected["rejected"])) == (5, 3)


def with_wrong_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """The first row without an id, and the last with one that is far above all others."""
    last = pl.col("id") == len(rows)
    changed = pl.when(last).then(pl.lit(1_000_000, pl.Int32)).when(pl.col("id") != 1).then("id")
    return rows.with_columns(id=changed)


def with_a_high_id(rows: pl.DataFrame) -> pl.DataFrame:
    high = pl.when(pl.col("id") == len(rows)).then(pl.lit(1_000_000, pl.Int32)).otherwise("id")
    return rows.with_columns(id=high)


@pytest.mark.parametrize("change", [None, with_wrong_ids, with_a_high_id])
def test_a_giant_that_is_refused_writes_nothing_but_its_row(spark: SparkSession, tmp_path: Path, change):
    """Flink refuses it, or its ids are wrong: Spark reads rows without an id, workers read others."""
    topology = GIANT if change else wide("refused", 9_000, uid="u4")
    folder, store = written_as_tables(tmp_path / "given", [topology], change), tmp_path / "store"
    stored = plan_on_spark([str(folder)], plan_options(), str(store), spark=spark, planner=Planner.BLOCKS)
    assert counts(stored) == (1, 0, 1)
    found = read_plan(DeltaRsTables(str(store)))
    assert {name for name, rows in found.items() if len(rows)} == {"rejected"}
    assert rows_of(found["rejected"]) == rows_of(plan_in_process(str(folder)).tables["rejected"])
