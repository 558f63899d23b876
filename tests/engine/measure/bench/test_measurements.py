"""Suites, the order of measurements, and failures as results."""

import json
import sys
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.measure.bench import measure_planner
from penstock.engine.measure.bench.planners import PLANNERS, MeasuredPlanner, missing_reason
from penstock.engine.measure.bench.prepare_inputs import (
    NEXMARK,
    SUITES,
    Case,
    Input,
    cases_of,
    count_operators,
    find_suite,
    measure_with,
    prepare_inputs,
    repeat_topologies,
    run_benchmarks,
    spec_of,
    turns,
)
from penstock.engine.measure.bench.run_child import measure_planner_command, planner_processes, run_child
from penstock.engine.measure.bench.times import ENOUGH_SECONDS, Times, is_enough
from penstock.plans.errors import ConfigurationError
from penstock.plans.vocabulary import Layer
from tests.engine.measure.bench.made_up import times
from tests.processes import is_alive, processes_running

FLEET, CHAIN = SUITES["fleet"], SUITES["chain"]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_sizes_ascend_and_a_file_is_planned_once(tmp_path):
    file = tmp_path / "mine.jsonl.gz"
    file.touch()
    mine = find_suite(str(file))
    assert cases_of([CHAIN, mine], [50, 7, 50]) == [Case(CHAIN, 7), Case(CHAIN, 50), Case(mine, 0)]
    assert mine.name == "mine"


def test_what_is_neither_a_suite_nor_a_file_is_refused():
    with pytest.raises(ConfigurationError, match="nexmark"):
        find_suite("nexmark")


def test_size_is_the_number_of_operators_in_all():
    fleet, uids = spec_of(Case(FLEET, 1200)), spec_of(Case(SUITES["uids"], 1200))
    assert (fleet.topologies, fleet.operators) == (100, 12)
    assert (uids.topologies, uids.operators, uids.share_of_uids) == (1, 1200, 1.0)


def test_every_suite_can_be_made():
    shapes = {"random", "layered", "chain", "diamond", "wide"}
    assert all((suite.shape in shapes) != (suite.file is not None) for suite in SUITES.values())
    assert NEXMARK.is_file()


def test_topologies_are_repeated_under_other_names_up_to_a_size():
    rows = [{"id": 1, "kind": "source"}, {"id": 2, "kind": "union"}, {"id": 3, "kind": "sink"}]
    topologies: list[dict[str, Any]] = [
        {"name": "a", "transformations": rows},
        {"name": "b", "stream_graph": {"nodes": [{}, {}, {}]}},
    ]
    assert [count_operators(topology) for topology in topologies] == [2, 3]
    names = [topology["name"] for topology in repeat_topologies(topologies, 7)]
    assert names == ["a/0", "b/0", "a/1"]
    assert len(list(repeat_topologies(topologies, 2))) == 1
    assert len(list(repeat_topologies(topologies, 5))) == 2
    assert len(list(repeat_topologies(topologies, 6))) == 3
    assert len(set(names)) == len(names)


def test_what_is_no_topology_has_no_operators():
    assert [count_operators(what) for what in (None, 3, {}, {"transformations": None})] == [0] * 4


def test_planners_take_turns_and_another_one_is_first_each_time():
    cases = [Case(FLEET, 10), Case(FLEET, 20)]
    order = [(t.repetition, t.case.size, t.planner) for t in turns(cases, ["s", "c", "f"], 2)]
    assert order == [
        *((0, size, planner) for size in (10, 20) for planner in "scf"),
        *((1, size, planner) for size in (10, 20) for planner in "cfs"),
    ]


def test_a_planner_that_is_not_there_says_why():
    nowhere = MeasuredPlanner("x", ("no_such_module_there",), (), False, "")
    inside = nowhere._replace(needs=("no_such_module_there.inside",))
    no_package = nowhere._replace(needs=("json",), packages=("no-such-package",))
    assert all("no_such_module_there" in (missing_reason(planner) or "") for planner in (nowhere, inside))
    assert "no-such-package" in (missing_reason(no_package) or "")
    assert missing_reason(PLANNERS["process"]) is None


@pytest.fixture
def inputs(tmp_path):
    cases = [Case(CHAIN, size) for size in (10, 100, 1000)]
    return {case: Input(tmp_path, tmp_path / "lines", 1, case.size) for case in cases}


def test_failures_are_results_and_sizes_behind_a_time_out_are_skipped(inputs):
    def measure(planner, path):
        found = {"start_up_seconds": 0.5, "cold": times(1), "warm": [], "failure": None}
        asked.append((planner, path))
        if planner == "flink" and len(asked) > 2:
            found |= {"cold": None, "failure": {"error": "Timeout", "message": ""}}
        return {**found, "peak_memory_bytes": 1}

    asked: list[tuple[str, Path]] = []
    todo = list(turns(list(inputs), ["process", "flink"], 2))
    records = [record for _, record in run_benchmarks(todo, inputs, measure, lambda stage: None)]
    errors = [r["failure"] and r["failure"]["error"] for r in records if r["planner"] == "flink"]
    assert errors == [None, "Timeout", "Skipped", "Timeout", "Skipped", "Skipped"]
    assert [r["failure"] for r in records if r["planner"] == "process"] == [None] * 6
    assert {path.name for planner, path in asked if planner == "flink"} == {"lines"}
    assert {(r["suite"], r["operators"]) for r in records} == {("chain", n) for n in (10, 100, 1000)}


def test_the_last_object_that_a_process_prints_is_its_result():
    result: dict[str, Any] = {"cold": times(1), "warm": [], "failure": None, "own_peak_bytes": 2**60}
    last = json.dumps({**result, "done": True})
    found = run_child(
        python(f"print('{{'); print({json.dumps(result)!r}); print({last!r}); print('bye')"), 60
    )
    assert found["failure"] is None
    assert found["peak_memory_bytes"] == 2**60
    assert "done" not in found


def test_what_was_measured_before_a_crash_is_kept():
    result = json.dumps({"start_up_seconds": 1.5, "cold": times(1), "warm": [], "failure": None})
    found = run_child(python(f"print({result!r}, flush=True); import os; os.kill(os.getpid(), 9)"), 60)
    assert found["failure"]["error"] == "Killed"
    assert found["cold"] == times(1)


def test_a_crash_a_kill_and_a_time_out_are_told_apart():
    crashed = run_child(python("raise ValueError('no such thing')"), 60)
    killed = run_child(python("import os; os.kill(os.getpid(), 9)"), 60)
    late = run_child(python("import time; time.sleep(100)"), 0.5)
    failures = [found["failure"] for found in (crashed, killed, late)]
    assert [failure["error"] for failure in failures] == ["Crashed", "Killed", "Timeout"]
    assert "ValueError: no such thing" in failures[0]["message"]
    assert "SIGKILL" in failures[1]["message"]
    assert all(found["cold"] is None and found["warm"] == [] for found in (crashed, killed, late))


@pytest.mark.slow
def test_what_a_process_has_started_ends_with_it(tmp_path):
    """A child that left the session, as a daemon does, too."""
    file = tmp_path / "pid"
    sleeping = [sys.executable, "-c", "import time; time.sleep(100)"]
    started = f"subprocess.Popen({sleeping!r}, start_new_session=True)"
    code = (
        f"import subprocess, time, pathlib; c = {started}; pathlib.Path({str(file)!r}).write_text(str(c.pid))"
    )
    assert run_child(python(f"{code}; time.sleep(100)"), 2)["failure"]["error"] == "Timeout"
    pid = int(file.read_text())
    for _ in range(100):
        if not is_alive(pid):
            break
        time.sleep(0.05)
    assert not is_alive(pid)


def test_an_exception_of_a_planner_is_its_result(tmp_path):
    missing = tmp_path / "nothing.jsonl"
    command = measure_planner_command("process", "--input", str(missing), "--repeat-in-process", "0")
    found = run_child(command, 60)
    assert found["failure"]["error"] == "InputError"
    assert str(missing) in found["failure"]["message"]
    assert found["start_up_seconds"] > 0
    assert found["cold"] is None


def test_bundled_stream_graphs_are_prepared_without_spark(tmp_path):
    case = Case(SUITES["sql"], 60)
    given = prepare_inputs([case], tmp_path, True, pytest.fail)[case]
    lines = [json.loads(line) for line in given.path(False).read_text().splitlines()]
    assert sum(map(count_operators, lines)) == given.operators >= 60
    assert len(lines) == given.topologies


@pytest.mark.slow
def test_a_kept_process_is_cold_once_and_another_one_follows_a_failure(tmp_path, monkeypatch):
    monkeypatch.setitem(PLANNERS, "process", PLANNERS["process"]._replace(reused=True))
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"name": "a", "transformations": [{"id": 1, "kind": "source"}]}) + "\n")
    options = ("--until", "stream_graph", "--repeat-in-process", "1", "--input")
    with planner_processes(60) as (ask, _):
        first, second = ask("process", (*options, str(file))), ask("process", (*options, str(file)))
        failed = ask("process", (*options, str(tmp_path / "none.jsonl")))
        ended = ask("process", ("--no-such-option",))
        other = ask("process", (*options, str(file)))
    found = (first, second, failed, ended, other)
    assert [one["cold"] is not None for one in found] == [True, False, False, False, True]
    assert [len(one["warm"]) for one in found] == [1, 1, 0, 0, 1]
    assert [one["failure"] and one["failure"]["error"] for one in found] == [
        None, None, "InputError", "Crashed", None,
    ]  # fmt: skip
    assert second["start_up_seconds"] is None
    assert all(one["cpu_seconds"] < 60 and one["peak_memory_bytes"] > 2**25 for one in (first, second, other))


def test_processes_that_are_begun_run_side_by_side_and_end_with_the_block(tmp_path, monkeypatch):
    file = tmp_path / "met"
    meet = "import os, sys, time\nopen(sys.argv[1] + sys.argv[2], 'w')\n"
    meet += "while not os.path.exists(sys.argv[1] + sys.argv[3]): time.sleep(0.01)\n"
    meet += 'print(\'{"done": true, "failure": null}\')'
    monkeypatch.setattr(
        "penstock.engine.measure.bench.run_child.measure_planner_command",
        lambda planner, *options: [*python(meet), str(file), *options],
    )
    with planner_processes(60) as (_, begin):
        begun = begin("process", ("1", "2")), begin("flink", ("2", "1"))
        assert [wait()["failure"] for wait in begun] == [None, None]
    with planner_processes(60) as (_, begin):
        begin("process", ("3", "never"))
    assert not processes_running(str(file))


def test_processes_that_are_kept_are_at_work_side_by_side_too(tmp_path, monkeypatch):
    file = tmp_path / "met"
    meet = "import json, os, sys, time\nfor line in sys.stdin:\n"
    meet += "    mine, other = (sys.argv[1] + name for name in json.loads(line))\n"
    meet += "    open(mine, 'w')\n    while not os.path.exists(other): time.sleep(0.01)\n"
    meet += '    print(\'{"done": true, "failure": null}\', flush=True)'
    monkeypatch.setattr(
        "penstock.engine.measure.bench.run_child.measure_planner_command",
        lambda planner, *options: [*python(meet), str(file)],
    )
    with planner_processes(60) as (ask, begin):
        for planner in ("blocks", "workers"):
            assert ask(planner, ("0", "0"))["failure"] is None
        begun = begin("blocks", ("1", "2")), begin("workers", ("2", "1"))
        assert [wait()["failure"] for wait in begun] == [None, None]


def test_the_first_repetition_of_a_kept_process_is_cold_and_the_others_are_warm():
    case = Case(CHAIN, 7)
    asked = []

    def ask(planner, options):
        asked.append((planner, options[-1]))
        return {}

    for repeat in (3, 1):
        todo = list(turns([case], ["blocks", "process"], repeat))
        measure = measure_with(ask, todo, Layer.SLOTS, 2)
        for turn in todo:
            measure(turn.planner, Path("topologies"))
    plans = {name: [times for planner, times in asked if planner == name] for name in ("blocks", "process")}
    assert plans == {"blocks": ["0", "2", "2", "2"], "process": ["2"] * 4}


def test_a_kept_process_that_takes_too_long_is_ended(monkeypatch):
    code = "import time; time.sleep(100)"
    monkeypatch.setattr(
        "penstock.engine.measure.bench.run_child.measure_planner_command", lambda *_: python(code)
    )
    with planner_processes(0.3) as (ask, _):
        found = ask("blocks", ())
    assert found["failure"]["error"] == "Timeout"


def test_long_plans_are_repeated_once(tmp_path, monkeypatch):
    def plans(path, until, warm):
        return (Times(None, {}, ENOUGH_SECONDS) for _ in range(1 + warm))

    monkeypatch.setattr(measure_planner, "_started", {"process": SimpleNamespace(plans=plans)})
    chosen = Namespace(planner="process", input=tmp_path, until="slots", repeat_in_process=9, launched=0)
    assert len(measure_planner._measure(chosen)["warm"]) == 1


def test_warm_plans_fill_the_time_that_there_is():
    assert [is_enough([2.0] * count) for count in range(6)] == [False] * 5 + [True]
