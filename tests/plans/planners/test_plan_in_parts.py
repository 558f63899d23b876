"""A fleet in parts, with compiled loops, gives the rows that it gives whole and without."""

import os
import signal
import time

import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames import compiled
from penstock.plans.frames import polars_frames as frames
from penstock.plans.layers import PlanOptions
from penstock.plans.planners import plan_in_parts
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.planners.plan_in_parts import plan_columnar, stages
from penstock.plans.vocabulary import Layer
from tests.plans.planners.table_contents import rows_of
from tests.reference.random_topologies import MODES, random_topology

TOPOLOGIES = [random_topology(seed, 2 + seed * 7 % 40, mode=mode) for mode in MODES for seed in range(25)]


@pytest.fixture
def as_if_large(monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_COMPILING", 0)
    monkeypatch.setattr(compiled, "WORTH_RUNNING", 0)
    monkeypatch.setattr(plan_in_parts, "ROWS_OF_A_PART", 200)
    monkeypatch.setattr(frames, "MANY", 1)


@pytest.fixture
def as_if_small(monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_COMPILING", 10**9)
    monkeypatch.setattr(compiled, "WORTH_RUNNING", 10**9)
    monkeypatch.setattr(frames, "MANY", 10**9)


@pytest.fixture
def small(as_if_small):
    return plan_in_process([*TOPOLOGIES, {"name": "wrong"}])


def given(topologies):
    tables = read_topologies(topologies)._asdict()
    return {name: tables[name] for name in tables if name != "inputs"}


@pytest.mark.slow
def test_what_size_decides_changes_no_row(small, as_if_large):
    large = plan_in_process([*TOPOLOGIES, {"name": "wrong"}])
    assert (large.inputs, large.planned, large.rejected) == (small.inputs, small.planned, small.rejected)
    assert small.rejected > 1
    for name, table in small.tables.items():
        assert large.tables[name].schema.equals(table.schema), name
        assert rows_of(large.tables[name]) == rows_of(table), name


def test_parts_hold_whole_topologies_and_every_row_once(as_if_large):
    tables = given(TOPOLOGIES[::-1])
    shuffled = {
        **tables,
        "transformations": tables["transformations"].sample(fraction=1, shuffle=True, seed=1),
    }
    parts = plan_in_parts.split_by_topology(shuffled)
    assert len(parts) > 5
    seen = [set(part["topologies"]["topology_id"]) for part in parts]
    assert sum(map(len, seen)) == len(set().union(*seen)) == len(tables["topologies"])
    for part, topologies in zip(parts, seen, strict=True):
        assert set(part["transformations"]["topology_id"]) == topologies
        assert len(part["job_settings"]) == len(topologies)
    assert sum(len(part["transformations"]) for part in parts) == len(tables["transformations"])


@pytest.mark.slow
def test_as_many_stages_are_told_as_one_part_has_and_each_takes_a_share_of_the_time(as_if_large):
    told: list[str] = []
    planned = plan_in_parts.plan_in_parts(given(TOPOLOGIES), PlanOptions(Layer.JOB_GRAPH), told.append)
    assert len(told) == stages(Layer.JOB_GRAPH)
    assert set(planned.seconds) == set(_stages_of_one_part())
    assert min(planned.seconds.values()) > 0


def _stages_of_one_part():
    told: list[str] = []
    plan_columnar(given(TOPOLOGIES[:1]), PlanOptions(Layer.JOB_GRAPH), told.append)
    return told


def test_an_error_of_one_part_ends_the_run(as_if_large, monkeypatch):
    def fails(*_):
        raise ValueError("an edge's node is missing")

    monkeypatch.setattr(plan_in_parts, "plan_columnar", fails)
    with pytest.raises(ValueError, match="an edge's node is missing"):
        plan_in_parts.plan_in_parts(given(TOPOLOGIES), PlanOptions(Layer.SLOTS))


def test_ctrl_c_ends_a_plan_between_stages():
    told: list[str] = []

    def press(stage: str) -> None:
        told.append(stage)
        if len(told) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.02)

    with pytest.raises(KeyboardInterrupt):
        plan_in_parts.plan_in_parts(given(TOPOLOGIES[:1]), PlanOptions(Layer.SLOTS), press)
    assert len(told) < stages(Layer.SLOTS) // 2


def test_two_runs_give_rows_in_one_order():
    """Also the rows of groups, which hash tables would give in another order each time."""
    located: list[dict[str, object]] = [{"id": 1, "kind": "source", "name": "s"}]
    located += [
        {"id": i, "kind": "sink", "name": "k", "inputs": [1], "co_location_group": f"g{i % 60}"}
        for i in range(2, 122)
    ]
    fleet = [*TOPOLOGIES, {"name": "located", "chaining": False, "transformations": located}]
    once, again = plan_in_process(fleet), plan_in_process(fleet)
    assert once.tables["co_location_groups"].num_rows >= 60
    for name, table in once.tables.items():
        assert again.tables[name].equals(table), name
