"""What commands do, as library calls: drawn fleets, planners as functions, typed results."""

import subprocess
import sys
from datetime import datetime
from typing import Any, get_args

import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.engine.library.planned_tables import Store, Version
from penstock.engine.planning.find_custom_planners import importable_name
from penstock.engine.views.draw.graph_of_layer import DrawnLayer
from penstock.plans import vocabulary as literals
from penstock.plans.custom_planners.decisions import Decision
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.layered import SHAPES
from penstock.plans.importing.given_graph import SeveralInputs
from penstock.plans.resources.memory_and_buffers import PROFILES
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import Layer, Partitioner, SlotSharingStrategy
from tests.plans.topology.builders import simple

FLEET = penstock.generate("random", 30, seed=3)


@penstock.decides("chaining")
def never(stream_edges):
    return stream_edges.select("topology_id", "target", "in_index", chainable=pl.lit(False))


@penstock.decides("chaining")
def always(stream_edges):
    return stream_edges.select("topology_id", "target", "in_index", chainable=pl.lit(True))


@penstock.decides("chaining")
def raises(stream_edges):
    return stream_edges.nothing


@penstock.decides("chaining")
def estimate_a_strange_table(stream_edge):
    return stream_edge


@pytest.mark.slow
def test_a_drawn_fleet_is_the_one_that_the_command_writes(tmp_path):
    assert FLEET.topologies.num_rows == penstock.plan(FLEET).planned == 30
    FLEET.write(tmp_path / "fleet.jsonl")
    command = ["generate", "random", "-n", "30", "--seed", "3", "--out", str(tmp_path / "same.jsonl")]
    subprocess.run([sys.executable, "-m", "penstock.engine.commands.main", *command], check=True)
    assert penstock.diff(tmp_path / "fleet.jsonl", tmp_path / "same.jsonl").topologies == []
    assert [penstock.generate(shape.name, operators=8).topologies.num_rows for shape in SHAPES] == [1] * 6
    assert penstock.generate("workloads").topologies.num_rows > 20
    assert penstock.generate("alibaba-2018", 3).topologies.num_rows == 3
    assert penstock.generate(like=penstock.plan(FLEET), topologies=4).topologies.num_rows == 4
    for wrong in ({"shape": "rando"}, {"shape": "chain", "width": 3}, {"shape": "workloads", "seed": 2}, {}):
        with pytest.raises(penstock.ConfigurationError):
            penstock.generate(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"operators": "8"}, "operators must be a whole number, got '8'"),
        ({"share_of_uids": "all"}, "share_of_uids must be 0 to 1, got 'all'"),
        ({"parallelism": 2.5}, "parallelism must be a whole number, got 2.5"),
        ({"spark": 3}, "spark must be a SparkSession, got int"),
    ],
)
def test_arguments_of_another_type_are_said(wrong, said):
    with pytest.raises(penstock.ConfigurationError, match=said):
        penstock.generate("chain", **wrong)


def test_what_a_notebook_shows_of_a_fleet_and_a_store():
    table = FLEET._repr_html_()
    assert [name in table for name in FLEET.topologies["name"].to_pylist()[:11]] == [True] * 10 + [False]
    versions = [Version(n, datetime(2026, 1, n), None, 10 * n, n, (), {}) for n in (1, 2)]
    shown = repr(Store("plans", tuple(versions)))
    assert shown == "<penstock.Store plans: 2 versions; the newest, 2: 20 planned, 2 rejected topologies>"


@pytest.mark.slow
@pytest.mark.parametrize("planner", [never, (never,), f"{__name__}:never"])
def test_a_planner_is_a_function_or_its_name(planner, tmp_path):
    planned = penstock.check(penstock.plan(FLEET, planner=planner))
    assert planned.planned == 30
    assert planned.options["planner"] == f"{__name__}:never"
    assert planned.tables["job_vertices"].num_rows == planned.tables["stream_nodes"].num_rows
    assert (
        penstock.read_plan(tmp_path / "store", planned.write(tmp_path / "store")).options == planned.options
    )


def test_messages_name_file_and_line_of_a_planner():
    here = "test_results.py, line"
    for planner, rule in ((always, "NotChainable"), (raises, here)):
        with pytest.raises(penstock.errors.BrokenInvariantError, match=rule):
            penstock.check(penstock.plan(FLEET, planner=planner))
    with pytest.raises(penstock.ConfigurationError, match=here):
        penstock.plan(FLEET, planner=estimate_a_strange_table)
    with pytest.raises(penstock.ConfigurationError, match="marked with a decision"):
        penstock.plan(FLEET, planner=len)
    with pytest.raises(penstock.ConfigurationError, match="costs"):
        penstock.plan(FLEET, costs="drawn")


@pytest.mark.parametrize(
    ("table", "damage", "said"),
    [
        ("stream_edges", lambda rows: pa.concat_tables([rows, rows]), "IdNotUnique: stream_edges target 2"),
        ("execution_job_vertices", lambda rows: pa.concat_tables([rows, rows]), "IdNotUnique"),
        (
            "execution_slot_sharing_groups",
            lambda rows: rows.drop_columns(["subtask"]),
            "column subtask is missing",
        ),
    ],
)
def test_a_damaged_plan_is_no_plan(table, damage, said):
    plan = penstock.plan(simple("a"))
    tables: Any = {**plan.tables, table: damage(plan.tables[table])}
    plan.tables = tables
    with pytest.raises(penstock.errors.BrokenInvariantError, match=said):
        penstock.check(plan)


def test_explain_size_and_metrics_show_themselves(capsys):
    planned = penstock.plan([simple("a", parallelism=3), simple("b")])
    explained = planned.explain(topology="a")
    (edge,) = planned.explain((explained.edges[0]["source"]["name"], explained.edges[0]["target"]["name"]),
                              topology="a").edges  # fmt: skip
    assert edge == explained.edges[0]
    size = planned.size(slots_per_task_manager=2, available=5)
    assert size.jobs.num_rows == 2
    assert size.session_cluster["slots"] == 4
    metrics = planned.metrics(costs=pl.DataFrame({"topology": ["a"], "id": [1], "records_per_second": [7.0]}))
    assert 7.0 in metrics.plans["source_records_per_second"].to_pylist()
    with pytest.raises(penstock.InputError, match=r"^costs: column topology must be text, got Null"):
        planned.metrics(costs=pl.DataFrame({"topology": [None], "id": [1]}))
    assert metrics.summary.num_rows > 15
    for one, said in ((explained, "chained"), (size, "TaskManagers"), (metrics, "utilisation")):
        one.show()
        assert said in capsys.readouterr().out
        assert "<table>" in one._repr_html_()
    with pytest.raises(penstock.ConfigurationError, match="no operator"):
        planned.explain(("no", "such"), topology="a")
    with pytest.raises(penstock.ConfigurationError, match="needs a plan with slots"):
        penstock.plan(simple("a"), until="job_graph").size()


@pytest.mark.slow
def test_a_comparison_counts_what_plans_take(tmp_path, capsys):
    old, new = penstock.plan(FLEET), penstock.plan(FLEET, parallelism=16)
    assert old.write(tmp_path / "store") + 1 == new.write(tmp_path / "store") == 2
    compared = penstock.diff(old, new)
    assert compared.counts.totals == penstock.diff(penstock.open_store(tmp_path / "store")).counts.totals
    for name in ("tasks", "slots"):
        before, after = compared.counts.totals[name]
        assert before < after
    before, after = compared.counts.totals["tasks"]
    rows = [plan.tables["execution_vertices"].num_rows for plan in (old, new)]
    assert after - before == rows[1] - rows[0]
    assert {"tasks", "channels", "network_buffers", "managed_bytes", "slots"} == set(compared.counts.totals)
    assert compared.table.num_rows == len(compared.topologies)
    compared.show()
    assert "tasks, where they differ" in capsys.readouterr().out
    assert "→" in compared._repr_html_()
    with pytest.raises(penstock.errors.WorseVerdictError):
        penstock.diff(simple("a"), {"name": "a", "transformations": []}).require("restores")
    with pytest.raises(penstock.ConfigurationError, match="new is required"):
        penstock.diff(old)


def test_names_of_literals_are_the_values_of_their_enums():
    enums = {
        "LayerName": Layer, "PartitionerName": Partitioner, "SlotSharingName": SlotSharingStrategy,
        "NetworkName": PROFILES, "DecisionName": Decision, "DrawnLayerName": DrawnLayer,
        "SeveralInputsName": SeveralInputs,
        "ShapeName": [shape.name for shape in SHAPES], "TableName": TABLES,
    }  # fmt: skip
    for name, values in enums.items():
        assert get_args(getattr(literals, name)) == tuple(map(str, values)), name


@penstock.decides("chaining")
def only_small(stream_edges: pl.DataFrame) -> pl.DataFrame:
    """Flink's plan, but raises for topologies of more than 10 edges."""
    if (stream_edges.group_by("topology_id").len()["len"] > 10).any():
        raise ValueError("too large")
    return stream_edges.select("topology_id", "target", "in_index", "chainable").head(0)


@pytest.mark.slow
def test_functions_are_compared_with_flinks_rules_in_this_process(tmp_path):
    @penstock.decides("chaining")
    def never(stream_edges: pl.DataFrame) -> pl.DataFrame:
        return stream_edges.select("topology_id", "target", "in_index", chainable=pl.lit(False))

    quality = penstock.bench("fleet", ["flink", never, only_small], sizes=[300], quality=True, out=tmp_path)
    name = f"{__name__}:test_functions_are_compared_with_flinks_rules_in_this_process.<locals>.never"
    assert quality.results["planners"] == ["flink", name, f"{__name__}:only_small"]
    rows = [row for row in quality.compared.to_pylist() if row["metric"] == "tasks"]
    tasks = {row["other"]: row for row in rows}
    assert tasks[name]["worse"] > 0
    small = tasks[f"{__name__}:only_small"]
    assert 0 < small["topologies"] < tasks[name]["topologies"] == small["topologies"] + rejected_of(quality)
    assert (small["base_mean"], small["difference"]) == (small["other_mean"], 0)
    assert quality.plans.num_rows == 2 * tasks[name]["topologies"] + small["topologies"]
    assert (tmp_path / "quality.html").exists()
    with pytest.raises(ConfigurationError, match="planners to compare are required"):
        penstock.bench(quality=True)


def rejected_of(quality: Any) -> int:
    (case,) = quality.results["cases"]
    return int(case["planners"][2]["rejected_for"]["PlannerRaised"])


def test_processes_of_their_own_take_functions_of_modules(tmp_path):
    def local(stream_edges: pl.DataFrame) -> pl.DataFrame:
        return stream_edges

    penstock.decides("chaining")(local)
    spec = {"topologies": {"shape": "chain"}, "planners": ["flink", local]}
    said = "planners: other processes cannot import .*local"
    with pytest.raises(ConfigurationError, match=said):
        penstock.sweep(spec, tmp_path)
    with pytest.raises(ConfigurationError, match=said):
        penstock.bench("fleet", ["process", local])
    assert importable_name(only_small, "planners") == f"{__name__}:only_small"
