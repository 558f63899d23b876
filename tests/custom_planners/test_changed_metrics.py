"""Metrics after a change against planning and measuring the changed jobs whole."""

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.engine.library.changed_metrics import Change, ChangedMetrics
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.custom_planners.check_answer import NEVER_CHAINED
from penstock.plans.metrics.plan_metrics import METRICS

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


def drawn_change(tables: dict[str, pl.DataFrame], topology: int, draw: random.Random) -> Change:
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


@pytest.mark.slow
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
        row["name"]: row for row in whole.metrics(costs="drawn", constants=constants).plans.to_pylist()
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


def row_of(found: ChangedMetrics) -> dict[str, Any]:
    return {metric: getattr(found, metric) for metric in METRICS}
