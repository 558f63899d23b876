"""Metrics after a change against planning and measuring the changed jobs whole."""

import contextlib
import io
import pickle
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.engine.planning.changed_metrics import Change, ChangedMetrics
from penstock.plans.custom_planners.check_answer import NEVER_CHAINED
from penstock.plans.errors import BrokenInvariantError, ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.metrics.plan_metrics import METRICS

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "custom-planners.md"
SHAPES = ("random", "random", "layered", "chain", "diamond", "wide")


def planner_of(changes: dict[int, Change]) -> list[Any]:
    """A planner that answers the changes of all topologies (by id), of vertices those that there are."""
    edges = [
        (topology, *key, chained)
        for topology, change in changes.items()
        for key, chained in change.get("chaining", {}).items()
    ]
    groups = [
        (topology, vertex, str(name))
        for topology, change in changes.items()
        for vertex, name in change.get("slot_sharing_groups", {}).items()
    ]

    @penstock.decides("chaining")
    def chaining() -> pl.DataFrame:
        columns = {"topology_id": pl.Int64, "target": pl.Int32, "in_index": pl.Int32, "chainable": pl.Boolean}
        return pl.DataFrame(edges, schema=columns, orient="row")

    @penstock.decides("slot_sharing_groups")
    def grouping(job_vertices: pl.DataFrame) -> pl.DataFrame:
        columns = {"topology_id": pl.Int64, "vertex": pl.Int32, "slot_sharing_group": pl.String}
        rows = pl.DataFrame(groups, schema=columns, orient="row")
        return rows.join(job_vertices, on=["topology_id", "vertex"], how="semi")

    return [chaining, grouping]


def drawn_change(tables: Mapping[Any, pl.DataFrame], topology: int, draw: random.Random) -> Change:
    edges = tables["stream_edges"].filter(pl.col("topology_id") == topology)
    free = edges.filter(
        ~pl.col("chained_source")
        & (pl.col("not_chainable_reasons").list.set_intersection(NEVER_CHAINED).list.len() == 0)
    )
    keys = free.select("target", "in_index").rows()
    vertices = tables["job_vertices"].filter(pl.col("topology_id") == topology)["vertex"].to_list()
    change = Change(chaining={key: draw.random() < 0.5 for key in keys if draw.random() < 0.5})
    if draw.random() < 0.5:
        change["slot_sharing_groups"] = {
            vertex: draw.choice("abc") for vertex in vertices if draw.random() < 0.3
        }
    return change


@settings(max_examples=6, deadline=None)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 2**31))
def test_numbers_are_those_of_planning_and_measuring_whole(shape: str, seed: int):
    draw = random.Random(seed)
    few = shape == "random"
    fleet = penstock.generate(shape, 25 if few else 4, operators=12 if few else 40, seed=seed)
    constants = {"cores": draw.choice((2, 1e9)), "handover_ns_per_buffer": draw.choice((0, 5000, 50_000))}
    options: Any = {"slots_per_task_manager": draw.choice((1, 3))}
    plan = penstock.plan(fleet, **options)
    metrics = plan.metrics(costs="drawn", constants=constants)
    tables = {name: from_arrow(rows) for name, rows in plan.tables.items()}
    names = dict(tables["topologies"].select("topology_id", "name").iter_rows())
    changes = {topology: drawn_change(tables, topology, draw) for topology in names}
    whole = penstock.plan(fleet, planner=planner_of(changes), **options)
    assert whole.planned == plan.planned, whole.tables["rejected"].to_pylist()
    expected = {
        row["topology"]: row for row in whole.metrics(costs="drawn", constants=constants).plans.to_pylist()
    }
    vertices = from_arrow(whole.tables["job_vertices"])
    there = {
        topology: set(vertices.filter(pl.col("topology_id") == topology)["vertex"]) for topology in names
    }
    for topology, name in names.items():
        change = changes[topology]
        first: Change = {"chaining": change["chaining"]}
        found = metrics.after(first, name)  # in two steps, since groups are of vertices that are there then
        if "slot_sharing_groups" in change:
            groups = change["slot_sharing_groups"].items()
            kept = {vertex: group for vertex, group in groups if vertex in there[topology]}
            found = found.after({"slot_sharing_groups": kept})
        assert row_of(found) == {metric: expected[name][metric] for metric in METRICS}, (name, change)


def test_of_vertices_that_are_as_busy_the_first_is_the_bottleneck():
    operators = [
        {"id": 1, "kind": "source", "name": "in"},
        *({"id": n, "kind": "one_input", "name": f"map {n}", "inputs": [n - 1]} for n in (2, 3)),
        {"id": 4, "kind": "sink", "name": "out", "inputs": [3]},
    ]
    job = {"name": "job", "transformations": operators}
    plan = penstock.plan(job)
    change: Change = {"chaining": {(target, 0): False for target in (2, 3, 4)}}
    (topology,) = plan.tables["topologies"]["topology_id"].to_pylist()
    whole = penstock.plan(job, planner=planner_of({topology: change}))
    (expected,) = whole.metrics().plans.to_pylist()
    found = plan.metrics().after(change)
    assert found.bottleneck == expected["bottleneck"] == "map 2"
    assert row_of(found) == {metric: expected[metric] for metric in METRICS}


def test_changes_take_numbers_of_numpy_and_metrics_go_to_other_processes():
    metrics = penstock.plan({"name": "job", "parallelism": 2, "transformations": OPERATORS}).metrics()
    edge: Any = (np.int64(2), np.int32(0))
    change: Any = {"chaining": {edge: np.bool_(False)}, "parallelism": {np.int64(5): np.int64(2)}}
    found = metrics.after(change)
    assert found.change == {"chaining": {(2, 0): False}, "parallelism": {5: 2}}
    sent = pickle.loads(pickle.dumps(found))
    assert sent == found
    assert "<td>slots</td>" in sent._repr_html_()
    with pytest.raises(ConfigurationError, match="must be called in the process of the metrics"):
        sent.after({})


def row_of(found: ChangedMetrics) -> dict[str, Any]:
    return {metric: getattr(found, metric) for metric in METRICS}


def test_the_example_of_the_page_prints_what_is_shown():
    section = PAGE.read_text(encoding="utf-8").partition("\n## Metrics after a change\n")[2]
    found = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(found[1], {})
    assert printed.getvalue() == found[2]


OPERATORS = [
    {"id": 1, "kind": "source", "name": "in"},
    {"id": 2, "kind": "one_input", "name": "parse", "inputs": [1]},
    {"id": 3, "kind": "partition", "partitioner": "hash", "inputs": [2]},
    {"id": 4, "kind": "one_input", "name": "count", "inputs": [3]},
    {"id": 5, "kind": "sink", "name": "out", "inputs": [4], "parallelism": 1},
]


@pytest.mark.parametrize("partitioner", ["hash", "rescale"])  # by arrays, and planned whole
def test_what_flinks_rules_forbid_is_said(partitioner: str):
    operators = [dict(operator) for operator in OPERATORS]
    operators[2]["partitioner"] = partitioner
    operators[3]["parallelism"] = 4 if partitioner == "rescale" else 2
    metrics = penstock.plan({"name": "job", "parallelism": 2, "transformations": operators}).metrics()
    assert metrics.after({"chaining": {(2, 0): False}}).vertices == metrics.after({}).vertices + 1
    for change, said in (
        (
            {"chaining": {(4, 0): True}},
            r"job: NotChainable: edge 2 \(parse\) to 4 \(count\): (got|found) .*PARTITION",
        ),
        ({"chaining": {(9, 0): True}}, "job: UnknownKey: stream_edges target 9 in_index 0"),
        ({"slot_sharing_groups": {2: "a"}}, "job: UnknownKey: job_vertices vertex 2"),
        ({"parallelism": {1: 0}}, r"job: ParallelismOutOfRange: operator 1 \(Source: in\)"),
    ):
        with pytest.raises(BrokenInvariantError, match=said):
            metrics.after(change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ([], "change must be a dict of decisions, got list"),
        ({"plan": {}}, r"keys of change must be decisions \(parallelism, .*, got 'plan'"),
        ({"chaining": [(2, 0)]}, r"change: chaining must be a dict of \(target, in_index\) to .*, got list"),
        ({"chaining": {2: False}}, r"change: keys of chaining must be \(target, in_index\), got 2"),
        ({"chaining": {(2, 0): 0}}, r"chaining: \(2, 0\) must map to a bool \(chainable\), got 0"),
        ({"parallelism": {2: 2**40}}, "parallelism: 2 must map to a int .*, got 1099511627776"),
        ({"parallelism": {2**40: 2}}, "keys of parallelism must be id, got 1099511627776"),
        ({"parallelism": {2: True}}, r"parallelism: 2 must map to a int \(parallelism\), got True"),
    ],
)
def test_what_is_no_change_is_refused(change: Any, said: str):
    metrics = penstock.plan({"name": "job", "transformations": OPERATORS}).metrics()
    with pytest.raises(ConfigurationError, match=said):
        metrics.after(change)


def test_the_job_is_named_where_there_are_several_and_begins_with_flinks_plan():
    jobs = [{"name": name, "transformations": OPERATORS} for name in ("a", "b")]
    with pytest.raises(ConfigurationError, match="the plan has 2 topologies"):
        penstock.plan(jobs).metrics().after({})
    with pytest.raises(ConfigurationError, match="topology c has no plan"):
        penstock.plan(jobs).metrics().after({}, "c")
    mine = penstock.plan(jobs[:1], planner=planner_of({}))
    with pytest.raises(ConfigurationError, match="needs Flink's plan"):
        mine.metrics().after({})


def test_parallelism_and_partitioners_are_planned_again_and_go_on_from_there():
    metrics = penstock.plan({"name": "job", "parallelism": 2, "transformations": OPERATORS}).metrics()
    wider = metrics.after({"parallelism": {5: 2}, "chaining": {(2, 0): False}})
    found = wider.after({"partitioners": {(5, 0): "RESCALE"}})
    assert (wider.tasks, found.tasks, found.vertices) == (6, 8, 4)
    assert set(found.change) == {"parallelism", "chaining", "partitioners"}
