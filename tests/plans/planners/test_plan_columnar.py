"""The columnar planner against the real Flink and the reference planner."""

import gzip
import json
import os
from pathlib import Path

import polars as pl
import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.tables import TABLES
from tests.planned_lines import LAYERS, differs
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.jsonl.gz"))
FUZZ_SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "20260"))


def golden_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def planned_lines(topologies):
    planned = plan_in_process(topologies)
    assert planned.inputs == len(topologies)
    lines = to_plan_lines({name: from_arrow(table) for name, table in planned.tables.items()})
    return {row["name"]: json.loads(row["line"]) for row in lines.to_dicts()}


@pytest.mark.slow
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
        refused = {"error_stage", "error", "message"}
        wanted = refused if "error" in line["expected"] else LAYERS
        assert set(plans[line["expected"]["name"]]) == {"name", *wanted}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_plans_of_random_topologies_are_the_references(mode):
    seeds = [*range(150), *range(FUZZ_SEED * 1_000, FUZZ_SEED * 1_000 + 50)]
    topologies = [random_topology(seed, 2 + seed * 11 % 70, mode=mode) for seed in seeds]
    plans = planned_lines(topologies)
    expected = {topology["name"]: plan(topology) for topology in topologies}
    wrong = [
        topology for topology in topologies if differs(plans[topology["name"]], expected[topology["name"]])
    ]
    smallest = json.dumps(min(wrong, key=lambda t: len(t["transformations"]))) if wrong else ""
    assert not wrong, f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}: {len(wrong)} differ; the smallest: {smallest}"


@pytest.mark.slow
def test_a_topology_is_planned_the_same_alone_and_among_others_in_any_order():
    topologies = [random_topology(seed, 25, mode=MODES[seed % len(MODES)]) for seed in range(40)]
    together = planned_lines(topologies[::-1])
    for topology in topologies[:8]:
        assert planned_lines([topology]) == {topology["name"]: together[topology["name"]]}


def _comparable(frame, table):
    """Rows in one order; maps as lists of entries in one order."""
    columns = [
        pl.col(name).map.entries().list.sort() if isinstance(kind, pl.Map) else pl.col(name)
        for name, kind in frame.schema.items()
    ]
    flat = frame.select(TABLES[table].names).select(columns)
    keys = [name for name, kind in flat.schema.items() if not kind.is_nested()]
    return flat.sort(keys, nulls_last=True)
