"""What a planner on Spark planned last is what is compared, and no plan is kept longer than that."""

import json

import pytest

from penstock.engine.measure.bench import run_spark
from penstock.engine.planning.choose_planner import Planner
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.planned_on_spark import Planned
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.vocabulary import Layer


@pytest.fixture
def inputs(tmp_path):
    """Two files, of a topology each."""
    files = []
    for name in ("one", "two"):
        job = {
            "name": name,
            "transformations": [
                {"id": 1, "kind": "source", "name": "in"},
                {"id": 2, "kind": "sink", "name": "out", "inputs": [1]},
            ],
        }
        file = tmp_path / f"{name}.jsonl"
        file.write_text(json.dumps(job) + "\n")
        files.append(file)
    return files


@pytest.fixture
def released(monkeypatch):
    """Names of the topologies of each plan, in the order in which plans are released."""
    names = []
    release = Planned.release

    def note(self):
        names.append([row.name for row in self.tables["topologies"].collect()])
        release(self)

    monkeypatch.setattr(Planned, "release", note)
    yield names
    run_spark._release_last_plan()


def plan_lines(file, until=Layer.TOPOLOGY):
    return list(run_spark.plan_lines(file, until, Planner.JOINS))


def test_the_last_plan_is_compared_and_released_after_it(spark, inputs, released, monkeypatch):
    first, _ = inputs
    run_spark._plan(first, Layer.TOPOLOGY, Planner.JOINS)
    assert released == []
    monkeypatch.delattr(run_spark, "plan")  # nothing is planned anew
    lines = plan_lines(first)
    assert released == [["one"]]
    tables = plan_in_process(str(first), until=Layer.TOPOLOGY).tables
    expected = to_plan_lines({name: from_arrow(rows) for name, rows in tables.items()})["line"]
    assert lines == expected.to_list()


def test_another_plan_releases_the_last_one(spark, inputs, released):
    first, second = inputs
    run_spark._plan(first, Layer.TOPOLOGY, Planner.JOINS)
    run_spark._plan(second, Layer.TOPOLOGY, Planner.JOINS)
    assert released == [["one"]]
    plan_lines(first)  # which is compared, but was not the last
    assert released == [["one"], ["two"], ["one"]]
