"""The columnar planner against the real Flink, the reference planner and the Spark passes."""

import gzip
import json
import os
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_schemas import keep
from penstock.plans.layers import LAYER_TABLES, Choices
from penstock.plans.metrics.operator_costs import drawn_costs, operator_costs
from penstock.plans.metrics.plan_metrics import plan_metrics
from penstock.plans.passes import GIVEN
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.planners import run_joins as run_passes
from penstock.plans.planners.joins_passes import Walk, steps
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import Layer
from tests.planned_lines import LAYERS, differs
from tests.plans.planners.by_joins import plan_by_joins
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology
from tests.test_plan_reference import with_selects

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


@pytest.fixture(scope="module")
def exchanges():
    """Exchanges of each kept step of `both`, and of each table as it is read, by the executed plans."""
    return {"kept": [], "tables": {}}


@pytest.fixture(scope="module")
def both(spark, exchanges):
    """Tables of the Spark passes and of the columnar planner, for a part of golden and for random topologies.

    tests/passes shows the cases of passes by joins.
    """

    def counted(rows):
        exchanges["kept"].append(exchanges_of(rows))
        return keep(rows)

    topologies = [
        random_topology(50_000 + seed, 2 + seed * 7 % 50, mode=mode) for mode in MODES for seed in range(10)
    ]
    topologies += [with_selects(random_topology(seed, 40), seed) for seed in range(0, 50, 5)]
    for path in GOLDEN:
        every = {"passes": 50, "settings": 12}.get(path.name.split(".")[0], 4)
        topologies += [line["topology"] for line in golden_lines(path)[::every]]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_passes, "keep", counted)
        planned = plan_by_joins(spark, topologies)
    exchanges["tables"] = {name: exchanges_of(frame) for name, frame in planned.tables.items()}
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


def test_metrics_do_not_depend_on_the_planner(both):
    """Nor on the order of its rows, to the last bit of sums."""
    choices = Choices()

    def costs(stream_nodes, stream_edges):
        return operator_costs(stream_nodes, stream_edges, drawn_costs(stream_nodes))

    found = [
        plan_metrics(
            tables,
            costs(tables["stream_nodes"], tables["stream_edges"]),
            choices.task_manager,
            choices.network,
        ).plans.sort("topology_id")
        for tables in both
    ]
    assert found[0].to_dicts() == found[1].to_dicts()


def test_a_plan_by_joins_is_exchanged_when_it_is_read_and_after_walks_only(both, exchanges):
    """Given tables are partitioned by topology once, and what leaves Python has to be again; that is all.

    Sinks are expanded in Python, for which Spark groups their topologies once more.
    """
    walks = sum(isinstance(step, Walk) for _, step in steps(Choices(), Layer.SLOTS))
    assert sum(exchanges["kept"]) == len(GIVEN) + walks + 1
    assert exchanges["kept"][len(GIVEN)] == 1
    assert max(exchanges["kept"]) == 1
    assert set(exchanges["tables"].values()) == {0}


def exchanges_of(rows):
    """How many exchanges the executed plan of these rows has."""
    todo, found = [rows._jdf.queryExecution().executedPlan()], 0
    while todo:
        node = todo.pop()
        found += "Exchange" in node.nodeName()
        children = node.children()
        todo += [children.apply(place) for place in range(children.size())]
    return found


def _comparable(frame, table):
    """Rows in one order; maps as lists of entries in one order."""
    columns = [
        pl.col(name).map.entries().list.sort() if isinstance(kind, pl.Map) else pl.col(name)
        for name, kind in frame.schema.items()
    ]
    flat = frame.select(TABLES[table].names).select(columns)
    keys = [name for name, kind in flat.schema.items() if not kind.is_nested()]
    return flat.sort(keys, nulls_last=True)
