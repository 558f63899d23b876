"""The columnar planner against the real Flink, the reference planner and the Spark passes."""

import gzip
import json
import os
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from engine.planning.choose_planner import Planner
from engine.planning.plan_in_process import plan_in_process
from engine.planning.plan_topologies import plan as plan_on_spark
from plans.columnar.frames import from_arrow
from plans.layers import LAYER_TABLES
from plans.plan_json.columnar.to_plan_lines import to_plan_lines
from plans.tables import TABLES
from plans.vocabulary import Layer
from tests.planned_lines import LAYERS, differs
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl.gz"))
FUZZ_SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "20260"))


def golden_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def planned_lines(topologies):
    planned = plan_in_process(topologies)
    assert planned.inputs == len(topologies)
    lines = to_plan_lines({name: from_arrow(table) for name, table in planned.tables.items()})
    return {row["name"]: json.loads(row["line"]) for row in lines.to_dicts()}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_plans_are_flinks(path):
    lines = golden_lines(path)
    plans = planned_lines([line["topology"] for line in lines])
    assert [
        line["expected"]["name"]
        for line in lines
        if differs(plans[line["expected"]["name"]], line["expected"])
    ] == []
    for line in lines:
        given = {"stream_graph"} & set(line["topology"])
        refused = {"error_stage", "error", "message"}
        wanted = refused if "error" in line["expected"] else set(LAYERS) - given
        assert set(plans[line["expected"]["name"]]) == {"name", *wanted}


@pytest.mark.parametrize("mode", MODES)
def test_plans_of_random_topologies_are_the_references(mode):
    seeds = [*range(300), *range(FUZZ_SEED * 1_000, FUZZ_SEED * 1_000 + 100)]
    topologies = [random_topology(seed, 2 + seed * 11 % 70, mode=mode) for seed in seeds]
    plans = planned_lines(topologies)
    wrong = [t for t in topologies if differs(plans[t["name"]], plan(t))]
    smallest = json.dumps(min(wrong, key=lambda t: len(t["transformations"]))) if wrong else ""
    assert not wrong, f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}: {len(wrong)} differ; the smallest: {smallest}"


def test_a_topology_is_planned_the_same_alone_and_among_others_in_any_order():
    topologies = [random_topology(seed, 25, mode=MODES[seed % len(MODES)]) for seed in range(40)]
    together = planned_lines(topologies[::-1])
    for topology in topologies[:8]:
        assert planned_lines([topology]) == {topology["name"]: together[topology["name"]]}


@pytest.fixture(scope="module")
def both(spark):
    """Tables of the Spark passes and of the columnar planner, for golden and random topologies."""
    topologies = [
        random_topology(50_000 + seed, 2 + seed % 50, mode=mode) for mode in MODES for seed in range(40)
    ]
    topologies += [line["topology"] for path in GOLDEN for line in golden_lines(path)]
    planned = plan_on_spark(topologies, spark=spark, planner=Planner.JOINS)
    rows = {name: from_arrow(frame.toArrow()) for name, frame in planned.tables.items()}
    planned.release()
    columnar = {name: from_arrow(table) for name, table in plan_in_process(topologies).tables.items()}
    return rows, columnar


PLANNED = [table for layer in list(Layer)[1:] for table in LAYER_TABLES[layer]]


@pytest.mark.parametrize("table", ["topologies", "transformations", "job_settings", "rejected", *PLANNED])
def test_both_planners_give_the_same_rows(both, table):
    """Every column, those that plan JSON does not show too."""
    spark_rows, columnar_rows = (_comparable(frames[table], table) for frames in both)
    assert_frame_equal(spark_rows, columnar_rows)
    assert table == "co_location_groups" or len(spark_rows) > 0


def _comparable(frame, table):
    """Rows in one order; maps as lists of entries in one order."""
    columns = [
        pl.col(name).map.entries().list.sort() if isinstance(kind, pl.Map) else pl.col(name)
        for name, kind in frame.schema.items()
    ]
    flat = frame.select(TABLES[table].names).select(columns)
    keys = [name for name, kind in flat.schema.items() if not kind.is_nested()]
    return flat.sort(keys, nulls_last=True)
