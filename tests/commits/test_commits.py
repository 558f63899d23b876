"""Two sinks, one commit: failures before the decision undo both, failures after it are finished later."""

import errno
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from engine.commits import commit_run as commits
from engine.commits import find_leftovers, journal, run_owner, settle_run, temporary_folders
from engine.commits.acknowledge_runs import runs_acknowledged_at_end
from engine.commits.commit_run import commit_run, undo_run
from engine.commits.earlier_runs import JobSink, NextRun, settle_earlier_runs
from engine.commits.errors import CommitError
from operators.common.typeinfo import Types
from operators.connectors.delta import commit_delta
from operators.connectors.delta.delta_sink import DeltaSink
from operators.connectors.file_sinks import staged_files
from operators.connectors.file_sinks.plain_sinks import TextSink
from operators.connectors.files import durable_files
from operators.connectors.sink import Committable, Sink, SinkWriter
from tests.commits.test_killed_drivers import recover
from tests.commits.two_sinks import ALL, BOTH, NOTHING, ROWS, begin, hidden, run, sinks_of, stage, visible

DEAD = {**run_owner.this_process(), "started": "1"}
ELSEWHERE = {**DEAD, "host": "another", "boot": "another", "machine": "another"}


@pytest.fixture
def failing(monkeypatch):
    """Let every transaction fail until the fixture is told otherwise."""
    commit = commit_delta._commit

    def fail(*arguments):
        raise OSError("the store is away")

    monkeypatch.setattr(commit_delta, "_commit", fail)
    return lambda: monkeypatch.setattr(commit_delta, "_commit", commit)


def of_owner(monkeypatch, owner):
    monkeypatch.setattr(commits, "this_process", lambda: owner)


def test_a_sink_that_fails_to_publish_hides_the_other_until_it_is_finished(tmp_path, failing):
    with pytest.raises(CommitError) as raised:
        run(sinks_of(tmp_path))
    for said in (
        "sink 'table'",
        f"({tmp_path}/table)",
        "the store is away",
        "published: none; not yet: 'files', 'table'",
        f"penstock recover {tmp_path}/files {tmp_path}/table",
    ):
        assert said in str(raised.value)
    assert visible(tmp_path) == NOTHING
    with pytest.raises(CommitError, match="the store is away"):  # files do not wait for the table any more
        run(sinks_of(tmp_path))
    assert visible(tmp_path) == (ALL, [])
    assert recover(tmp_path) == 1
    failing()
    assert recover("--dry-run", tmp_path) == 0
    assert visible(tmp_path) == (ALL, [])
    assert run(sinks_of(tmp_path)) is False
    assert visible(tmp_path) == BOTH
    assert run(sinks_of(tmp_path))
    assert visible(tmp_path) == (sorted(ALL * 2),) * 2
    assert hidden(tmp_path) == []


def test_another_job_finishes_the_first_and_runs(tmp_path, failing):
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    assert run(sinks_of(tmp_path), fingerprint="of a changed script")
    assert visible(tmp_path) == (sorted(ALL * 2),) * 2
    assert hidden(tmp_path) == []


def test_a_run_of_another_job_that_cannot_be_finished_is_told_and_left(tmp_path, failing, capsys):
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    shutil.rmtree(tmp_path / "files" / next(iter(set(_staged(tmp_path / "files")))))
    assert run(sinks_of(tmp_path), job="another", fingerprint="another")
    assert "neither there" in capsys.readouterr().err
    assert visible(tmp_path) == (ALL, sorted(ALL * 2))


def _staged(folder):
    return [one.name for one in folder.glob(".penstock-*") if one.name != ".penstock-runs"]


def test_abandon_gives_up_what_is_not_published(tmp_path, failing, capsys):
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    (found,) = journal.runs_in(str(tmp_path / "files"))
    assert recover("--abandon", "f" * 12 + "x", tmp_path) == 3
    assert recover("--abandon", found.short_id, "--dry-run", tmp_path) == 0
    assert recover("--abandon", found.short_id, tmp_path) == 0
    assert "given up; published before: none" in capsys.readouterr().out
    assert visible(tmp_path) == NOTHING
    assert hidden(tmp_path) == []
    assert list((tmp_path / "table").glob("*.parquet")) == []


@pytest.mark.parametrize("change", ["schema", "deleted", "replaced", "error mode"])
def test_a_table_that_no_longer_fits_undoes_both(tmp_path, change):
    table = str(tmp_path / "table")
    if change != "error mode":
        write_deltalake(table, pa.table({"n": [1000]}))
    opened, started = begin(sinks_of(tmp_path, "error" if change == "error mode" else "append"))
    with opened:
        staged = stage(started)
        if change == "schema":
            write_deltalake(
                table, pa.table({"n": [1], "more": [2]}), mode="overwrite", schema_mode="overwrite"
            )
        elif change == "error mode":
            write_deltalake(table, pa.table({"n": [1000]}))
        else:
            shutil.rmtree(tmp_path / "table" / "_delta_log")
        if change == "replaced":
            write_deltalake(table, pa.table({"n": [1000]}))
        said = {"schema": "has the columns", "error mode": "meanwhile"}.get(change, f"was {change}")
        with pytest.raises(CommitError, match=f"{said}.*; nothing of the job is committed"):
            commit_run(opened, staged)
        undo_run(opened)
    assert visible(tmp_path)[0] == []
    assert hidden(tmp_path) == []
    assert not [
        file for file in (tmp_path / "table").glob("part-*-*-*-*.parquet") if "-c000" not in file.name
    ]


def test_a_lasting_refusal_after_the_decision_stays_recoverable(tmp_path, failing):
    write_deltalake(str(tmp_path / "table"), pa.table({"n": [1000]}))
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    changed = pa.table({"n": [1], "more": [2]})
    write_deltalake(str(tmp_path / "table"), changed, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(CommitError, match="has the columns"):
        run(sinks_of(tmp_path))
    DeltaTable(str(tmp_path / "table")).restore(0)
    assert run(sinks_of(tmp_path)) is False
    assert visible(tmp_path) == (ALL, [*ALL, 1000])


def test_a_late_overwrite_does_not_remove_what_others_wrote(tmp_path, failing):
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"n": [1000]}))
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path, "overwrite"))
    failing()
    write_deltalake(table, pa.table({"n": [2000]}), mode="append")
    assert recover(tmp_path) == 1
    assert visible(tmp_path) == (ALL, [1000, 2000])


def test_conflicts_are_retried(tmp_path, monkeypatch):
    commit, calls = commit_delta._commit, []

    def conflict(*arguments):
        calls.append(1)
        if len(calls) < 4:
            raise CommitFailedError("another writer won")
        commit(*arguments)

    monkeypatch.setattr(commit_delta, "_commit", conflict)
    monkeypatch.setattr(commit_delta, "_FIRST_WAIT_SECONDS", 0.0)
    run(sinks_of(tmp_path))
    assert visible(tmp_path) == BOTH
    assert len(calls) == 4


def test_several_that_finish_one_run_at_once_publish_it_once(tmp_path, failing):
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    (found,) = journal.runs_in(str(tmp_path / "table"))
    errors = []

    def finish():
        try:
            settle_run.publish_rest(found)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=finish) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    assert visible(tmp_path) == BOTH


def test_the_run_of_a_script_is_kept_until_its_end(tmp_path, monkeypatch):
    with runs_acknowledged_at_end():
        run(sinks_of(tmp_path))
        (kept,) = journal.runs_in(str(tmp_path / "files"))
        assert settle_run.state_of(kept) == "done"
        copied = shutil.copytree(tmp_path, tmp_path.with_name("as the kill leaves it"))
    assert hidden(tmp_path) == []
    assert "done" in [file.name for file in copied.rglob("*")]


def test_a_driver_killed_after_its_commit_is_not_run_again(tmp_path, monkeypatch):
    of_owner(monkeypatch, DEAD)
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        commit_run(opened, stage(started))
    assert run(sinks_of(tmp_path)) is False
    assert visible(tmp_path) == BOTH
    assert hidden(tmp_path) == []


def test_a_finished_run_of_another_machine_may_still_be_in_its_script(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        of_owner(patched, ELSEWHERE)
        opened, started = begin(sinks_of(tmp_path))
        with opened:
            commit_run(opened, stage(started))
    assert run(sinks_of(tmp_path))
    assert visible(tmp_path) == (sorted(ALL * 2),) * 2
    assert list(journal.runs_in(str(tmp_path / "files"))) == [opened.run]


def test_of_two_runs_that_repeat_one_the_other_runs(tmp_path, monkeypatch):
    of_owner(monkeypatch, DEAD)
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        commit_run(opened, stage(started))
    assert settle_earlier_runs(NextRun("two sinks", "as before", sinks_of(tmp_path))) == opened.run
    alive = {**run_owner.this_process(), "pid": "1", "started": run_owner._start_of(1) or ""}
    claim = journal.read(opened.run, "claimed-0")
    assert claim == run_owner.this_process()
    monkeypatch.setattr(settle_run, "this_process", lambda: alive)
    assert settle_earlier_runs(NextRun("two sinks", "as before", sinks_of(tmp_path))) is None


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
    of_owner(monkeypatch, ELSEWHERE)
    opened, started = begin(sinks_of(tmp_path))
    with opened:
        staged = stage(started)
        journal.heartbeat(opened.run, 1)
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
        assert journal.decide_to_undo(opened.run)
        with pytest.raises(CommitError, match=r"took its run .* for dead"):
            commit_run(opened, staged)
        undo_run(opened)
    assert visible(tmp_path) == NOTHING
    assert hidden(tmp_path) == []


class Listed(Sink):
    """A sink of the user's: its commit appends to a file, once a write."""

    def __init__(self, path: str, failures: list[int]) -> None:
        super().__init__()
        self.path, self.failures = path, failures

    def writer(self, context):
        return SinkWriter()

    def commit(self, committables):
        lines = Path(self.path).read_text().splitlines() if Path(self.path).exists() else []
        if self.write_id not in [line.split()[0] for line in lines]:
            with Path(self.path).open("a") as file:
                file.write(f"{self.write_id} {len(committables)} {self.commit_retries}\n")
        if self.failures:
            self.failures.pop()
            raise ConnectionError("answer lost")


def test_a_sink_of_the_users_own_is_told_of_retries_and_finished_by_its_job(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mine = JobSink("mine", Listed(str(tmp_path / "listed"), [1, 1]))
    sinks = [*sinks_of(tmp_path), mine]
    one = [Committable("a", "b", 1, 0)]
    opened, started = begin(sinks)
    with opened, pytest.raises(CommitError, match="sink 'mine' failed: answer lost"):
        commit_run(opened, [*stage(started[:2]), one])
    assert visible(tmp_path) == NOTHING
    assert recover(tmp_path) == 1
    assert "only the job can commit it" in capsys.readouterr().err
    assert visible(tmp_path) == BOTH
    with pytest.raises(CommitError, match="published: 'files', 'table'; not yet: 'mine'"):
        settle_earlier_runs(NextRun("two sinks", "as before", sinks))
    assert settle_earlier_runs(NextRun("two sinks", "as before", sinks)) == opened.run
    assert [line.split()[1:] for line in (tmp_path / "listed").read_text().splitlines()] == [["1", "0"]]
    assert visible(tmp_path) == BOTH
    alone, _ = begin([mine])
    with alone:
        assert list(journal.runs_in(str(tmp_path / "state" / "penstock"))) == [alone.run]
        commit_run(alone, [one])


def test_leftovers_are_shown_and_removed_when_they_are_old(tmp_path, capsys):
    run(sinks_of(tmp_path))
    orphan = DeltaSink(str(tmp_path / "table"), ROWS).start()
    stage([JobSink("", sinks_of(tmp_path)[0].sink.start(type_info=Types.LONG())), JobSink("", orphan)])
    foreign = tmp_path / "table" / "part-00000-of-somebody-else.parquet"
    foreign.write_bytes(b"x" * 7)
    assert recover(tmp_path) == 0
    shown = capsys.readouterr().out
    lines = [line.split("\t") for line in shown.splitlines()[1:]]
    assert len(lines) == 4  # a heading, staged files, two data files
    assert all(int(line[1].replace(",", "")) > 100 for line in lines[1:])
    before = sorted(tmp_path.rglob("*"))
    assert recover("--clean", tmp_path) == 0
    assert recover("--clean", "--older-than", "0", "--dry-run", tmp_path) == 0
    assert sorted(tmp_path.rglob("*")) == before
    assert recover("--clean", "--older-than", "0", tmp_path) == 0
    assert hidden(tmp_path) == []
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 3
    assert foreign.exists()
    assert visible(tmp_path) == BOTH


def test_a_journal_of_somebody_else_moves_nothing_out_of_its_folder(tmp_path, failing):
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    secret = tmp_path / "secret"
    secret.write_text("x")
    (found,) = journal.runs_in(str(tmp_path / "files"))
    decision = tmp_path / "files" / journal.RUNS / found.run_id / "decision"
    value = json.loads(decision.read_text())
    value["committables"][0][0]["staged"] = str(secret)
    decision.write_text(json.dumps(value))
    assert recover(tmp_path) == 1
    assert secret.read_text() == "x"


def test_file_systems_without_fsync_and_links(tmp_path, monkeypatch):
    def remote(path):
        system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        return system, path.removeprefix("remote://").removeprefix(str(tmp_path))

    for module in (journal, staged_files, find_leftovers):
        monkeypatch.setattr(module, "filesystem_of", remote)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    sinks = [JobSink(name, TextSink(f"remote://{name}"), Types.LONG()) for name in ("a", "b")]
    move, calls = durable_files.move_file, []

    def fail(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the store is away")
        move(*arguments)

    monkeypatch.setattr(staged_files, "move_file", fail)
    opened, started = begin(sinks)
    with opened, pytest.raises(CommitError, match="recover remote://a remote://b"):
        commit_run(opened, [stage(started[:1])[0], stage(started[1:])[0]])
    assert recover("remote://") == 0
    for name in ("a", "b"):
        files = [one for one in (tmp_path / name).iterdir() if not one.name.startswith(".")]
        assert sorted(int(n) for one in files for n in one.read_text().split()) == ALL
        assert [one for one in (tmp_path / name).rglob(".penstock*") if any(one.iterdir())] == []


def test_temporary_folders_of_dead_processes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = temporary_folders.temporary_folder("py")
    left = tmp_path / f"penstock-py-{DEAD['pid']}-1-abc"
    left.mkdir()
    (left / "code.zip").write_bytes(b"x" * 7)
    assert recover(tmp_path) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "penstock-py" in line]
    assert line.split("\t")[:2] == [str(left), "7"]
    assert recover("--clean", tmp_path) == 0
    assert (mine.exists(), left.exists()) == (True, False)


def test_a_place_that_is_not_there(tmp_path, capsys):
    assert recover(tmp_path / "nowhere") == 3
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("at", ["prepare", "commit"])
def test_a_full_disk_has_its_exit_code_at_the_commit(tmp_path, monkeypatch, at):
    def fails(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TextSink, at, fails)
    opened, started = begin(sinks_of(tmp_path))
    with opened, pytest.raises(CommitError, match="No space left on device") as raised:
        commit_run(opened, stage(started))
    assert raised.value.exit_code == 8
    assert visible(tmp_path)[0] == []
