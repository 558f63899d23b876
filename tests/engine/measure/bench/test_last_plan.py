"""What a planner on Spark planned last is what is compared, and no plan is kept longer than that."""

import json

import pytest

from penstock.engine.measure.bench.run_planners import PlannerRun
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_result import PlanResult
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
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
    release = PlanResult.release

    def note(self):
        names.append([row.name for row in self.tables["topologies"].collect()])
        release(self)

    monkeypatch.setattr(PlanResult, "release", note)
    return names


@pytest.fixture
def run(spark):
    started = PlannerRun("blocks")
    yield started
    started.release()


def test_the_last_plan_is_compared_and_released_after_it(run, inputs, released, monkeypatch):
    first, _ = inputs
    next(run.plans(first, Layer.TOPOLOGY, 0))
    assert released == []
    monkeypatch.delattr(run, "_plan")  # nothing is planned anew
    lines = list(run.lines(first, Layer.TOPOLOGY))
    assert released == [["one"]]
    tables = plan_in_process(str(first), PlanOptions(Layer.TOPOLOGY)).tables
    expected = to_plan_lines({name: from_arrow(rows) for name, rows in tables.items()})["line"]
    assert lines == expected.to_list()


def test_another_plan_releases_the_last_one(run, inputs, released):
    first, second = inputs
    next(run.plans(first, Layer.TOPOLOGY, 0))
    next(run.plans(second, Layer.TOPOLOGY, 0))
    assert released == [["one"]]
    list(run.lines(first, Layer.TOPOLOGY))  # which is compared, but was not the last
    assert released == [["one"], ["two"], ["one"]]
