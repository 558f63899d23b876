"""Walks beside other steps, and tables freed after their last reader."""

import random

import pytest
from pyspark.sql import SparkSession

from engine.planning.choose_planner import Planner
from engine.planning.plan_topologies import plan
from plans.choices import Choices
from plans.joins import run_passes
from plans.joins.passes import Step, View, Walk, steps
from plans.joins.run_steps import Done, inputs_of, readers, run_steps
from plans.layers import LAYER_TABLES
from plans.vocabulary import Layer

GIVEN = {"topologies", "transformations", "job_settings", "given_stream_nodes", "given_stream_edges"}


class Recorded:
    """Steps whose walks end when told, in an order drawn by `seed`; fails where a table is not there."""

    def __init__(self, chosen: list[tuple[str, Step]], seed: int, failing: str = "") -> None:
        self.chosen, self.failing = dict(chosen), failing
        self.views = {name for name, step in chosen if isinstance(step, View)}
        self.random = random.Random(seed)
        self.tables = set(GIVEN)
        self.walking: list[tuple[str, Done]] = []
        self.beside: set[tuple[str, str]] = set()
        self.cancelled = False

    def run(self, name: str, step: Step) -> None:
        self.need(name)
        self.beside |= {(walk, name) for walk, _ in self.walking if name not in self.views}
        self.tables.add(name)
        if self.walking and self.random.random() < 0.5:
            self.end_one()

    def begin(self, name: str, step: Walk, done: Done) -> None:
        self.need(name)
        self.beside |= {(walk, name) for walk, _ in self.walking}
        self.walking.append((name, done))

    def finish(self, name: str) -> None:
        if name == self.failing:
            raise ValueError(name)
        self.tables.add(name)

    def free(self, name: str) -> None:
        self.tables.remove(name)

    def cancel(self) -> None:
        self.cancelled = True

    def need(self, name: str) -> None:
        read = set(inputs_of(self.chosen[name].derive))
        while views := read & self.views:
            assert views <= self.tables
            read = read - views | {table for view in views for table in inputs_of(self.chosen[view].derive)}
        assert read <= self.tables, (name, read - self.tables)

    def end_one(self) -> None:
        name, done = self.walking.pop(self.random.randrange(len(self.walking)))
        done.put(name)


@pytest.mark.parametrize("until", list(Layer))
@pytest.mark.parametrize("seed", range(8))
def test_steps_run_when_their_tables_are_there_and_free_them_after_the_last(until, seed, monkeypatch):
    chosen = steps(Choices(), until)
    stored = {source for layer in Layer for source in LAYER_TABLES[layer].values()}
    recorded = Recorded(chosen, seed)
    monkeypatch.setattr("plans.joins.run_steps.Done", lambda: Ending(recorded))
    run_steps(chosen, stored, recorded)
    assert not recorded.walking
    assert stored & {name for name, _ in chosen} <= recorded.tables
    if until is Layer.SLOTS:
        assert not {"virtual_expansions", "walked", "operators", "marked_edges"} & recorded.tables
        assert {("walked", "stream_graph_refusals"), ("task_regions", "task_slots")} <= {
            pair for one in recorded.beside for pair in (one, one[::-1])
        }


class Ending:
    """A queue of walks that have ended; where nothing has, waiting for one ends one."""

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
    monkeypatch.setattr("plans.joins.run_steps.Done", lambda: Ending(recorded))
    with pytest.raises(ValueError, match="task_regions"):
        run_steps(chosen, (), recorded)
    assert recorded.cancelled


def test_what_a_view_reads_is_kept_for_its_readers():
    reading = readers(steps(Choices(), Layer.SLOTS), {"execution_edges"})
    assert "connected_edges" in reading
    assert "after all steps" in reading["execution_job_vertices"]


def test_an_error_does_not_wait_for_what_a_walk_would_do_next(spark: SparkSession, monkeypatch):
    kept = []

    def derived(self, step, inputs, cancelled=None):
        if step is SLOW:
            cancelled.wait(60)
            return derive(self, step, inputs, cancelled)
        raise ValueError("another step")

    def keep(self, rows):
        kept.append(rows)

    derive = run_passes._Run._derived
    monkeypatch.setattr(run_passes._Run, "_derived", derived)
    monkeypatch.setattr(run_passes._Run, "_keep", keep)
    run = run_passes._Run(2, lambda stage: None)
    run.tables["topologies"] = spark.range(1)
    with pytest.raises(ValueError, match="another step"):
        run_steps([("slow", SLOW), ("other", Step(lambda topologies: topologies))], (), run)
    assert not kept
    assert not [begun for begun in run.begun.values() if begun.thread.is_alive()]


SLOW = Walk(lambda topologies: topologies)


def test_a_walk_that_fails_ends_the_run_with_its_error(spark: SparkSession, monkeypatch):
    def fail(self, step, inputs, cancelled=None):
        if isinstance(step, Walk):
            raise ValueError("a walk")
        return derived(self, step, inputs)

    derived = run_passes._Run._derived
    monkeypatch.setattr(run_passes._Run, "_derived", fail)
    with pytest.raises(ValueError, match="a walk"):
        plan(
            [{"name": "a", "transformations": [{"id": 1, "kind": "source"}]}],
            spark=spark,
            planner=Planner.JOINS,
        )
