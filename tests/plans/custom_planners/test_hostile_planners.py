"""Planners that end, break or block their process lose only the topologies that they do it for."""

import io
import json
import os
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.planning import plan_by_custom_planners as ask_custom_planner
from penstock.engine.planning import planner_process
from penstock.engine.planning.find_custom_planners import find_custom_planners
from penstock.plans.errors import ConfigurationError
from tests.plans.custom_planners.asked_planners import BAD, GOOD, custom_planner, job, planned, rejected

HOSTILE = """
import os, signal, sys, threading, time
import numpy as np, penstock, polars as pl

def decide(function):
    return penstock.decides("chaining")(function)

def nothing(edges):
    return edges.select("topology_id", "target", "in_index", "chainable").head(0)

@decide
def ends(stream_edges, topologies):
    if "bad" in topologies["name"].to_list():
        os._exit(0)
    return nothing(stream_edges)

@decide
def raises(stream_edges):
    raise SystemExit(0)

@decide
def crashes(stream_edges):
    os.kill(os.getpid(), signal.SIGSEGV)

@decide
def writes(stream_edges):
    os.write(1, b"RAW")
    sys.stdout.write("text")
    os.system("echo of a child")
    return nothing(stream_edges)

@decide
def closes(stream_edges):
    os.close(1)
    os.close(2)
    return nothing(stream_edges)

@decide
def clears(stream_edges):
    os.environ.clear()
    sys.path.clear()
    os.chdir("/")
    return nothing(stream_edges)

@decide
def patches(stream_edges):
    pl.DataFrame.join = None
    return nothing(stream_edges)

@decide
def forks(stream_edges):
    child = os.fork()
    if child == 0:
        raise RuntimeError("the child")
    os.waitpid(child, 0)
    return nothing(stream_edges)

@decide
def leaves_a_thread(stream_edges):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return nothing(stream_edges)

@decide
def hangs(stream_edges):
    time.sleep(1000)

@decide
def hangs_once(stream_edges):
    if not os.path.exists("hung"):
        open("hung", "w").close()
        time.sleep(1000)
    return nothing(stream_edges)

@decide
def takes_memory(stream_edges):
    taken = []
    while True:
        taken.append(np.empty(1 << 29))  # none of it is touched
"""


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    (tmp_path / "hostile.py").write_text(HOSTILE)
    (tmp_path / "exits.py").write_text("import os\nos.write(1, b'RAW')\nos._exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.slow
def test_a_planner_does_to_its_own_process_what_it_wants(hostile, capfd):
    environment = dict(os.environ)
    for name in ("writes", "closes", "clears", "patches", "forks", "leaves_a_thread"):
        planners = find_custom_planners(f"hostile:{name}")
        for _ in range(2):  # the process answers again
            assert planned(planners, GOOD, BAD).planned == 2, name
    written = capfd.readouterr()
    assert written.out == ""
    assert written.err.count("RAW") == written.err.count("of a child") == 2
    assert environment == dict(os.environ)
    assert callable(pl.DataFrame.join)


@pytest.mark.slow
def test_a_planner_that_ends_its_process_loses_what_it_ends_for(hostile):
    plan = planned(find_custom_planners("hostile:ends"), *(job(f"good {n}") for n in range(5)), BAD)
    assert plan.planned == 5
    stage, error, message = rejected(plan)["bad"]
    assert (stage, error) == ("planner", "PlannerRaised")
    assert "the topology: found its process ended (exit code 0) without an answer" in message
    for name, said in (("crashes", "ended (signal 11)"), ("takes_memory", "MemoryError")):
        assert said in rejected(planned(find_custom_planners(f"hostile:{name}"), GOOD))["good"][2], name
    started = time.monotonic()
    plan = planned(find_custom_planners("hostile:hangs"), GOOD, seconds=0.5)
    assert rejected(plan)["good"][1] == "PlannerTimedOut"
    assert time.monotonic() - started < 15


@pytest.mark.slow
def test_a_module_that_ends_the_process_is_an_error(hostile, capfd):
    with pytest.raises(ConfigurationError, match=r"cannot be loaded: its process ended \(exit code 0\)"):
        find_custom_planners("exits:planner")
    assert capfd.readouterr().out == ""


def test_innocent_topologies_are_planned(monkeypatch):
    asked = []

    @penstock.decides("chaining")
    def picky(topologies: pl.DataFrame) -> pl.DataFrame:
        asked.append(len(topologies))
        if topologies["name"].str.starts_with("bad").any():
            raise ValueError("I do not like it")
        return topologies.select("topology_id", target=2, in_index=0, chainable=False)

    fleet = [job(f"{'bad' if number % 13 == 0 else 'good'} {number}") for number in range(120)]
    plan = planned(custom_planner(picky, monkeypatch), *fleet)
    assert set(rejected(plan)) == {f"bad {number}" for number in range(0, 120, 13)}
    assert all("the topology: found ValueError" in message for _, _, message in rejected(plan).values())
    monkeypatch.setattr(ask_custom_planner, "MOST_CALLS", 4)
    asked.clear()
    plan = planned(custom_planner(picky, monkeypatch), *fleet)
    assert asked == [120, 60, 60, 30]
    messages = {message for _, _, message in rejected(plan).values()}
    assert all("given up after 4 calls, the last of which raised ValueError" in said for said in messages)
    assert (plan.planned, any("a batch of 15 topologies" in said for said in messages)) == (0, True)


def test_functions_find_their_process_as_it_was(monkeypatch, capfd):
    @penstock.decides("chaining")
    def breaks(stream_edges: pl.DataFrame) -> pl.DataFrame:
        answer = stream_edges.select("topology_id", "target", "in_index", "chainable").head(0)
        os.write(1, b"RAW")
        os.close(1)
        os.close(2)
        os.environ.clear()
        pl.DataFrame.join = None  # type: ignore[assignment]
        return answer

    environment = dict(os.environ)
    assert planned(custom_planner(breaks, monkeypatch), GOOD).planned == 1
    assert dict(os.environ) == environment
    os.write(1, b"as before")
    assert capfd.readouterr().out == "as before"


@pytest.mark.slow
def test_plan_shows_the_first_reason_and_rejected_groups(hostile, tmp_path):
    fleet = tmp_path / "fleet.jsonl"
    topologies = [job(f"good {n}") for n in range(3)] + [job("bad")]
    fleet.write_text("".join(f"{json.dumps(line)}\n" for line in topologies))
    ran = CliRunner().invoke(app, ["plan", str(fleet), "--out", "store", "--planner", "hostile:ends"])
    assert (ran.exit_code, ran.stdout.startswith("store: version 1 holds 3 planned and 1 rejected")) == (
        0,
        True,
    )
    assert "the first rejected is bad: PlannerRaised: planner hostile:ends: " in ran.stderr
    ran = CliRunner().invoke(app, ["plan", str(fleet), "--out", "all", "--planner", "hostile:crashes"])
    assert ran.exit_code == 7
    assert (
        "nothing was planned: 4 of 4 topologies were refused; the first is bad: PlannerRaised" in ran.stderr
    )
    shown = CliRunner().invoke(app, ["rejected", "all"]).stdout.splitlines()
    assert shown[0].split("\t")[:2] == ["topologies", "the first"]
    assert shown[1].split("\t")[:2] == ["4", "bad"]
    assert shown[2] == "4 refused for one reason; --all lists each"
    assert len(CliRunner().invoke(app, ["rejected", "all", "--all"]).stdout.splitlines()) == 6


@pytest.mark.slow
def test_an_answer_that_comes_too_late_is_not_taken_for_the_next(hostile):
    planners = find_custom_planners("hostile:hangs_once")
    assert rejected(planned(planners, GOOD, seconds=0.5))["good"][1] == "PlannerTimedOut"
    for _ in range(2):
        assert planned(planners, GOOD).planned == 1


def test_an_interrupt_while_a_planner_is_loaded_leaves_no_process_and_no_thread_behind(monkeypatch):
    started = []

    class Interrupted(io.BytesIO):
        def readline(self, size=-1):
            raise KeyboardInterrupt

    def start(*arguments, **options):
        process = subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.PIPE)
        process.stdout = Interrupted()
        started.append(process)
        return process

    monkeypatch.setattr(planner_process, "subprocess", SimpleNamespace(Popen=start, PIPE=subprocess.PIPE))
    with pytest.raises(KeyboardInterrupt):
        planner_process.PlannerProcess("slow:planner")
    assert started[0].poll() == -signal.SIGKILL
    assert not [one for one in threading.enumerate() if isinstance(one, threading.Timer) and not one.daemon]
