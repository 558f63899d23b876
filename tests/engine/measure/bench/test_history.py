"""What is told of a benchmark's runs over days."""

import random
from math import exp

import pytest

from penstock.engine.measure.bench.print_results import MOST_RUNS, append_rows, find_changes, read_history
from penstock.plans.errors import InputError
from tests.engine.measure.bench.made_up import record, results
from tests.plans.importing.imports import run


def noisy(*levels, seed=0, noise=0.03):
    drawn = random.Random(seed)
    return [level * exp(drawn.gauss(0, noise)) for level in levels]


@pytest.mark.parametrize("seconds", [[], [1.0], [1.0, 2.0], [1.0] * 9, [1, 1.02, 5, 1.01, 0.98, 1]])
def test_few_runs_steady_runs_and_one_slow_run_are_no_change(seconds):
    assert find_changes(seconds) == []


def test_changes_are_found_where_they_are():
    seconds = noisy(*[1] * 7, *[1.3] * 5, *[0.9] * 6)
    (slower, faster) = find_changes(seconds)
    assert (slower.place, faster.place) == (7, 12)
    assert slower.after / slower.before == pytest.approx(1.3, rel=0.05)
    assert faster.after / faster.before == pytest.approx(0.9 / 1.3, rel=0.05)


def test_steady_series_are_seldom_told_to_have_changed():
    told = [bool(find_changes(noisy(*[1] * 12, seed=seed, noise=0.2))) for seed in range(200)]
    assert sum(told) < 20


def test_the_command_says_since_when(tmp_path):
    code, _, said = run("bench", "--history", "--out", tmp_path)
    assert (code, "holds no results of penstock bench" in said) == (3, True)
    for day, seconds in enumerate([1.0, 1.01, 0.99, 1.0, 1.5, 1.51, 1.49], 1):
        of_day = {**results([], []), "date": f"2026-11-{day:02} 08:00:00 UTC"}
        name = "columnar" if day < 4 else "process"  # the former name of the same planner
        append_rows(tmp_path, of_day, [record(name, seconds, warm=[]), record("flink", 4.0)])
        if day == 7:  # a plan of fewer layers is no change
            append_rows(tmp_path, {**of_day, "until": "stream_graph"}, [record("process", 0.1)])
    series = {(one.planner, one.until): one for one in read_history(tmp_path)}
    assert len(series) == 3
    assert [len(one.runs) for one in series.values()].count(7) == 2
    code, written, said = run("bench", "--history", "--out", tmp_path)
    (line,) = (line for line in written.splitlines() if "since 20" in line)
    assert "process is 1.50 times as slow since 2026-11-05 08:00:00 UTC" in line
    assert code == 0
    assert said == ""


def test_only_the_newest_runs_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.engine.measure.bench.print_results.MOST_RUNS", 2)
    assert MOST_RUNS > 2
    for day in range(1, 5):
        append_rows(tmp_path, {**results([], []), "date": f"2026-11-0{day}"}, [record("process", 1.0)])
    (found,) = read_history(tmp_path)
    assert [one.date for one in found.runs] == ["2026-11-03", "2026-11-04"]


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(InputError, match="no results"):
        read_history(tmp_path)
