"""Fleets drawn after a published trace have its sizes and shapes, and Flink plans all of them."""

import json
from collections import Counter
from random import Random

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.generate.draw_by_trace import TRACES, _connected, draw_by_trace

TASKS = ("source", "one_input", "two_input")


def tasks_of(topology):
    return [row for row in topology["transformations"] if row["kind"] in TASKS]


@pytest.mark.slow
@pytest.mark.parametrize("trace", TRACES)
def test_sizes_and_parallelism_are_those_of_the_trace(trace):
    fleet = [draw_by_trace(trace, 7, number) for number in range(3000)]
    sizes = Counter(len(tasks_of(topology)) for topology in fleet)
    for tasks, share in {1: 0.383, 2: 0.204, 3: 0.128, 5: 0.054}.items():
        assert sizes[tasks] / 3000 == pytest.approx(share, abs=0.03), tasks
    instances = Counter(row["parallelism"] for topology in fleet for row in tasks_of(topology))
    assert instances[1] / instances.total() == pytest.approx(0.66, abs=0.03)
    assert set(instances) == {1, 2, 4, 8, 16, 32, 64}
    planned = plan_in_process(fleet)
    assert (planned.planned, planned.rejected) == (3000, 0)


def test_a_topology_depends_on_its_seed_and_number_alone():
    trace = next(iter(TRACES))
    assert draw_by_trace(trace, 1, 5) == draw_by_trace(trace, 1, 5)
    assert draw_by_trace(trace, 1, 5)["transformations"] != draw_by_trace(trace, 2, 5)["transformations"]
    assert all(row["parallelism"] <= 3 for row in tasks_of(draw_by_trace(trace, 1, 5, most_parallelism=3)))


class Last(Random):
    """A random.Random that takes the last ones."""

    def sample(self, population, k, *, counts=None):
        return population[-k:]


def test_three_quarters_of_the_next_levels_tasks_for_each_task_read_it():
    assert _connected([1, 4, 2], Last()) == [[], [], [0], [0], [0], [], [1, 2, 3, 4]]


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(
        app, ["generate", "alibaba-2018", "-n", "3", "--parallelism", "8", "--out", "x.jsonl"]
    )
    assert run.exit_code == 0, run.output
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert lines == [draw_by_trace("alibaba-2018", 0, number, 8) for number in range(3)]
    for wrong in (["--operators", "3"], ["--out", "folder"], ["--parallelism", "0"]):
        assert (
            CliRunner().invoke(app, ["generate", "alibaba-2018", "--out", "x.jsonl", *wrong]).exit_code == 2
        )
