"""Steps planned while others run, walks beside them, and tables freed after their last reader."""

import random

import pytest
from pyspark.sql import SparkSession

from penstock.plans.layers import LAYER_TABLES, Choices
from penstock.plans.planners import run_joins as run_passes
from penstock.plans.planners.joins_passes import (
    Checkpointed,
    FixedPoint,
    HandOver,
    JoinStep,
    View,
    Walk,
    steps,
)
from penstock.plans.planners.run_joins import AnyStep, Done, readers, run_steps, with_hand_overs
from penstock.plans.vocabulary import Layer
from tests.plans.planners.by_joins import plan_by_joins

GIVEN = {"topologies", "transformations", "job_settings", "given_stream_nodes", "given_stream_edges"}


class Recorded:
    """Steps that end when told, in an order drawn by `seed`; fails where a table is not there."""

    plans_ahead = True

    def __init__(self, chosen: list[tuple[str, AnyStep]], seed: int, failing: str = "") -> None:
        self.chosen, self.failing = dict(chosen), failing
        self.views = {name for name, step in chosen if isinstance(step, View)}
        self.random = random.Random(seed)
        self.named, self.computed = set(GIVEN), set(GIVEN)
        self.running: list[tuple[str, Done]] = []
        self.beside: set[tuple[str, str]] = set()
        self.ahead: set[tuple[str, str]] = set()
        self.cancelled = False

    def name(self, name: str, step: View) -> None:
        assert set(step.reads) <= self.named
        self.named.add(name)

    def prepare(self, name: str, step: JoinStep) -> None:
        assert not isinstance(step, View | FixedPoint)
        assert set(step.reads) <= self.named
        self.named.add(name)
        self.ahead |= {(running, name) for running, _ in self.running}
        if self.running and self.random.random() < 0.3:
            self.end_one()

    def begin(self, name: str, step: AnyStep, done: Done) -> None:
        assert isinstance(step, Walk | FixedPoint | HandOver) or (name in self.named) == self.plans_ahead
        self.need(name)
        self.beside |= {(running, name) for running, _ in self.running}
        self.running.append((name, done))
        others = [name for name, _ in self.running if not isinstance(self.chosen[name], Walk | HandOver)]
        assert len(others) <= 1

    def finish(self, name: str) -> None:
        if name == self.failing:
            raise ValueError(name)
        self.named.add(name)
        self.computed.add(name)

    def free(self, name: str) -> None:
        (self.named if name in self.views else self.computed).remove(name)

    def cancel(self) -> None:
        self.cancelled = True

    def need(self, name: str) -> None:
        read = set(self.chosen[name].reads)
        while views := read & self.views:
            assert views <= self.named
            read = read - views | {table for view in views for table in self.chosen[view].reads}
        assert read <= self.computed, (name, read - self.computed)

    def end_one(self) -> None:
        name, done = self.running.pop(self.random.randrange(len(self.running)))
        done.put(name)


@pytest.mark.slow
@pytest.mark.parametrize("hands_over", [True, False])
@pytest.mark.parametrize("plans_ahead", [True, False])
@pytest.mark.parametrize("until", list(Layer))
@pytest.mark.parametrize("seed", range(8))
def test_steps_run_when_their_tables_are_there_and_free_them_after_the_last(
    until, seed, plans_ahead, hands_over, monkeypatch
):
    chosen = with_hand_overs(steps(Choices(), until), until) if hands_over else steps(Choices(), until)
    stored = {source for layer in Layer for source in LAYER_TABLES[layer].values()}
    recorded = Recorded(chosen, seed)
    recorded.plans_ahead = plans_ahead
    monkeypatch.setattr("penstock.plans.planners.run_joins.Done", lambda: Ending(recorded))
    run_steps(chosen, stored, recorded)
    assert not recorded.running
    assert (stored & {name for name, _ in chosen}) - recorded.views <= recorded.computed
    if until is Layer.SLOTS:
        assert not {"virtual_expansions", "walked", "operators", "marked_edges"} & recorded.computed


def test_tables_are_handed_over_once_no_pass_refuses_their_topologies_any_more():
    handed_over = {
        name: step.tables.keys()
        for name, step in with_hand_overs(steps(Choices(), Layer.SLOTS), Layer.SLOTS)
        if isinstance(step, HandOver)
    }
    tables = LAYER_TABLES
    assert handed_over == {
        "stream_graph_tables": {*tables[Layer.TOPOLOGY], *tables[Layer.STREAM_GRAPH]},
        "job_graph_tables": {*tables[Layer.JOB_GRAPH], "managed_memory"},
        "execution_graph_tables": {*tables[Layer.EXECUTION_GRAPH], "network_buffers"},
    }
    assert with_hand_overs([], Layer.TOPOLOGY) == []


class Ending:
    """A queue of steps that have ended; where nothing has, waiting for one ends one."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded, self.names = recorded, list[str]()

    def put(self, name: str) -> None:
        self.names.append(name)

    def empty(self) -> bool:
        return not self.names

    def get(self) -> str:
        if not self.names:
            self.recorded.end_one()
        return self.names.pop(0)


def test_the_error_of_a_walk_is_raised_and_the_others_are_cancelled(monkeypatch):
    chosen = steps(Choices(), Layer.SLOTS)
    recorded = Recorded(chosen, 1, failing="task_regions")
    monkeypatch.setattr("penstock.plans.planners.run_joins.Done", lambda: Ending(recorded))
    with pytest.raises(ValueError, match="task_regions"):
        run_steps(chosen, (), recorded)
    assert recorded.cancelled


def test_what_a_view_reads_is_kept_for_its_readers():
    reading = readers(steps(Choices(), Layer.SLOTS), {"execution_edges"})
    assert "connected_edges" in reading
    assert "after all steps" in reading["execution_job_vertices"]


def test_the_next_step_is_planned_while_one_is_computed(monkeypatch):
    recorded = Recorded(chosen := steps(Choices(), Layer.SLOTS), 3)
    monkeypatch.setattr(recorded.random, "random", lambda: 1.0)
    monkeypatch.setattr("penstock.plans.planners.run_joins.Done", lambda: Ending(recorded))
    run_steps(chosen, (), recorded)
    assert {("stream_nodes", "marked_edges"), ("connected_edges", "sorted_vertices")} <= recorded.ahead


def test_walks_begin_as_early_as_they_can_and_other_steps_run_beside_them(monkeypatch):
    recorded = Recorded(chosen := steps(Choices(), Layer.SLOTS), 3)
    monkeypatch.setattr(recorded.random, "random", lambda: 1.0)
    monkeypatch.setattr("penstock.plans.planners.run_joins.Done", lambda: Ending(recorded))
    run_steps(chosen, (), recorded)
    assert {
        ("walked", "stream_graph_refusals"),
        ("task_regions", "task_slots"),
        ("task_slots", "chained_operators"),
    } <= {pair for one in recorded.beside for pair in (one, one[::-1])}


def test_an_error_does_not_wait_for_what_a_walk_would_do_next(spark: SparkSession, monkeypatch):
    kept = []
    run = run_passes._Run(2, lambda stage: None)

    def walk(topologies):
        run.cancelled.wait(60)
        return topologies

    def other(topologies):
        raise ValueError("another step")

    monkeypatch.setattr(run_passes, "keep", kept.append)
    run.tables["topologies"] = spark.range(1)
    with pytest.raises(ValueError, match="another step"):
        run_steps([("slow", Walk(walk)), ("other", JoinStep(other))], (), run)
    assert not kept
    assert not [begun for begun in run.begun.values() if begun.thread.is_alive()]


@pytest.mark.parametrize("kind", [Walk, Checkpointed])
def test_a_step_that_fails_ends_the_run_with_its_error(spark: SparkSession, monkeypatch, kind):
    def fail(self, name, step, inputs, prepared):
        if isinstance(step, kind):
            raise ValueError("a step")
        return computed(self, name, step, inputs, prepared)

    computed = run_passes._Run._computed
    monkeypatch.setattr(run_passes._Run, "_computed", fail)
    with pytest.raises(ValueError, match="a step"):
        plan_by_joins(spark, [{"name": "a", "transformations": [{"id": 1, "kind": "source"}]}])
