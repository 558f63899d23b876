"""What passes between a client that asks for a plan and the server of a session, without Spark."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.machine.folders import STATE_DIR, this_process
from penstock.engine.output.progress import Report
from penstock.engine.run.clusters import session_plans, session_server
from penstock.engine.run.clusters.session_folder import Session, folder_of_session, write_session
from penstock.engine.run.clusters.session_plans import PlansOfSession, SessionPlanError, ask_for_plan
from penstock.plans.errors import InputError
from tests.plans.topology.builders import simple


@pytest.fixture
def session(tmp_path):
    return Session("mine", "local[2]", 2, 2, "", 1, "127.0.0.1", this_process(), 0, "", "", tmp_path)


@contextmanager
def served(session, plan, cancelled):
    """A server that looks all the time."""
    plans, stop = PlansOfSession(session.folder, plan, cancelled.append), threading.Event()

    def serve():
        while not stop.is_set():
            plans.look()
            time.sleep(0.02)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield plans
    finally:
        stop.set()
        thread.join()


class Heard(Report):
    def __init__(self):
        self.said = []

    def __call__(self, stage):
        self.said.append(stage)

    def note(self, text):
        self.said.append(f"note {text}")


def test_a_result_comes_back_with_its_stages(session):
    def plan(name, work, report):
        report("read <topologies>\nof two lines")
        report.note("half")
        return work * 2

    heard = Heard()
    with served(session, plan, []):
        assert ask_for_plan(session, 21, heard) == 42
    assert heard.said == ["read <topologies>\nof two lines", "note half"]
    assert not list((session.folder / "plans").glob("*.request"))


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [(InputError("no.jsonl: no such file", "look there"), "no such file", 3), (KeyError("x"), "KeyError", 1)],
)
def test_an_error_comes_back_with_its_exit_code(session, error, said, code):
    def plan(name, work, report):
        raise error

    with served(session, plan, []), pytest.raises(SessionPlanError, match=said) as found:
        ask_for_plan(session, None, Report())
    assert found.value.exit_code == code


def test_a_plan_whose_client_is_killed_is_cancelled(session):
    begun, ended = threading.Event(), threading.Event()
    cancelled: list[str] = []

    def plan(name, work, report):
        begun.set()
        assert ended.wait(30)

    client = f"""
from pathlib import Path
from penstock.engine.run.clusters.session_folder import Session
from penstock.engine.run.clusters.session_plans import ask_for_plan
from penstock.engine.output.progress import Report
folder = Path({str(session.folder)!r})
session = Session("mine", "local[2]", 2, 2, "", 1, "", {session.owner!r}, 0, "", "", folder)
ask_for_plan(session, None, Report())
"""
    with served(session, plan, cancelled):
        process = subprocess.Popen([sys.executable, "-c", client], cwd=os.getcwd())
        assert begun.wait(30)
        process.kill()
        process.wait()
        end = time.monotonic() + 30
        while not cancelled and time.monotonic() < end:
            time.sleep(0.01)
        ended.set()
    assert cancelled


def test_an_answer_that_cannot_be_written(session, monkeypatch):
    def refuse(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session_plans, "replace_file", refuse)
    served_here = served(session, lambda name, work, report: work, [])
    with served_here, pytest.raises(SessionPlanError, match="session 'mine' cannot write to"):
        ask_for_plan(session, 1, Report())


def test_a_plan_in_a_session_is_that_of_this_process(spark, session, tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    recorded = replace(session, folder=folder_of_session("mine"))
    write_session(recorded)
    lines = [json.dumps(simple(f"job {number}", parallelism=number)) for number in (1, 2, 3)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{}"]))

    def penstock(*arguments):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return done.stdout

    asked = ("plan", "a.jsonl", "--until", "stream_graph", "--out")
    with served(recorded, partial(session_server.plan_on, spark), []):
        conf = "--conf=spark.sql.shuffle.partitions=2"
        said = penstock(*asked, "there", "--session", "mine", conf)
    assert said.startswith("there: version 1 holds 3 planned and 1 rejected of 4 topologies ")
    assert said.endswith(" given; whole topologies in Spark's workers)\n")
    penstock(*asked, "here")
    assert penstock("export", "there") == penstock("export", "here") != ""
    assert penstock("rejected", "there") == penstock("rejected", "here")


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--checkpoint-dir", "kept"], "keeps tables in its executors"), ([], "cannot read a pipe")],
)
def test_what_a_session_cannot_plan(session, tmp_path, monkeypatch, options, said):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    write_session(replace(session, folder=folder_of_session("mine")))
    os.mkfifo(tmp_path / "pipe")
    where = ["--out", str(tmp_path / "store"), "--session", "mine"]
    done = CliRunner().invoke(app, ["plan", str(tmp_path / "pipe"), *where, *options])
    assert done.exit_code == 2
    assert said in done.output


def test_a_server_that_has_ended(session):
    dead = Session(**{**vars(session), "owner": {**session.owner, "started": "1"}})
    with pytest.raises(SessionPlanError, match="has ended"):
        ask_for_plan(dead, None, Report())
