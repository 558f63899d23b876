"""What a run does about earlier ones whose drivers are dead, elsewhere or alive."""

import shutil

import pytest

from penstock.engine.machine import folders as run_owner
from penstock.engine.run.commits import commit_run as commits
from penstock.engine.run.commits import commit_run as settle_run
from penstock.engine.run.commits.commit_run import (
    CommitError,
    NextRun,
    commit_run,
    finish_earlier_runs,
    undo_run,
)
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.run.runtime.run_job import acknowledge_runs
from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.test_killed_drivers import recover
from tests.engine.run.commits.two_sinks import (
    ALL,
    BOTH,
    DEAD,
    NOTHING,
    begin,
    hidden,
    run,
    sinks_of,
    stage,
    visible,
)

ELSEWHERE = {**DEAD, "host": "another", "boot": "another", "machine": "another"}


def run_as(monkeypatch, owner):
    monkeypatch.setattr(commits, "this_process", lambda: owner)


def test_the_run_of_a_script_is_kept_until_its_end(tmp_path, monkeypatch):
    script = RunContext(is_script=True)
    run(sinks_of(tmp_path), context=script)
    (kept,) = runs_in(str(tmp_path / "files"))
    assert settle_run.state_of(kept) == "done"
    copied = shutil.copytree(tmp_path, tmp_path.with_name("as the kill leaves it"))
    acknowledge_runs(script)
    assert hidden(tmp_path) == []
    assert "done" in [file.name for file in copied.rglob("*")]


def test_a_driver_killed_after_its_commit_is_not_run_again(tmp_path, monkeypatch):
    run_as(monkeypatch, DEAD)
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        commit_run(opened, stage(started))
    assert run(sinks_of(tmp_path)) is False
    assert visible(tmp_path) == BOTH
    assert hidden(tmp_path) == []


def test_a_finished_run_of_another_machine_may_still_be_in_its_script(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        run_as(patched, ELSEWHERE)
        opened, started = begin(sinks_of(tmp_path))
        with opened:
            commit_run(opened, stage(started))
    assert run(sinks_of(tmp_path))
    assert visible(tmp_path) == (sorted(ALL * 2),) * 2
    assert list(runs_in(str(tmp_path / "files"))) == [opened.run]


def test_of_two_runs_that_repeat_one_the_other_runs(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        run_as(patched, DEAD)
        opened, started = begin(sinks_of(tmp_path))
        with opened:
            commit_run(opened, stage(started))
    assert finish_earlier_runs(NextRun("two sinks", "as before", sinks_of(tmp_path))) == opened.run
    alive = {**run_owner.this_process(), "pid": "1", "started": run_owner._start_of(1) or ""}
    claim = settle_run.read(opened.run, "claimed-0")
    assert claim == run_owner.this_process()
    monkeypatch.setattr(settle_run, "this_process", lambda: alive)
    assert finish_earlier_runs(NextRun("two sinks", "as before", sinks_of(tmp_path))) is None


def test_live_runs_are_left_alone(tmp_path, monkeypatch, capsys):
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        staged = stage(started)
        assert recover("--clean", "--older-than", "0", tmp_path) == 0
        assert f"left alone: process {DEAD['pid']}" in capsys.readouterr().out
        run(sinks_of(tmp_path))
        commit_run(opened, staged)
    assert visible(tmp_path) == (sorted(ALL * 2),) * 2


def test_a_run_of_another_machine_is_undone_after_a_day_of_silence(tmp_path, monkeypatch, capsys):
    run_as(monkeypatch, ELSEWHERE)
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        staged = stage(started)
        settle_run.heartbeat(opened.run, 1)
    assert recover(tmp_path) == 0
    assert "may be running" in capsys.readouterr().out
    monkeypatch.setattr(settle_run, "LONGEST_SILENCE_SECONDS", 0.0)
    assert recover(tmp_path) == 0
    assert hidden(tmp_path) == []
    with pytest.raises((CommitError, FileNotFoundError)):
        commit_run(opened, staged)
    assert visible(tmp_path) == NOTHING


def test_a_driver_that_was_taken_for_dead_does_not_publish(tmp_path):
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        staged = stage(started)
        assert settle_run.write(opened.run, "decision", {"publish": False})
        with pytest.raises(CommitError, match=r"considered its run .* dead"):
            commit_run(opened, staged)
        undo_run(opened)
    assert visible(tmp_path) == NOTHING
    assert hidden(tmp_path) == []
