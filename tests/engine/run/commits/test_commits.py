"""Two sinks, one commit: failures before the decision undo both, failures after it are finished later."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.commits import commit_run as settle_run
from penstock.engine.run.commits.commit_run import (
    CommitError,
    JobSink,
    NextRun,
    commit_run,
    finish_earlier_runs,
    undo_run,
)
from penstock.operators.connectors import commit_delta
from penstock.operators.connectors.sink import Committable, Sink, SinkWriter
from penstock.operators.connectors.staged_files import TextSink
from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.test_killed_drivers import recover
from tests.engine.run.commits.two_sinks import (
    ALL,
    BOTH,
    NOTHING,
    begin,
    hidden,
    run,
    sinks_of,
    stage,
    visible,
)
from tests.operators.connectors.delta_tables import add_commit


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
    (found,) = runs_in(str(tmp_path / "files"))
    assert recover("--abandon", "f" * 12 + "x", tmp_path) == 3
    assert recover("--abandon", found.short_id, "--dry-run", tmp_path) == 0
    assert recover("--abandon", found.short_id, tmp_path) == 0
    assert "abandoned; published before: none" in capsys.readouterr().out
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
            write_deltalake(table, pa.table({"n": ["x"]}), mode="overwrite", schema_mode="overwrite")
        elif change == "error mode":
            write_deltalake(table, pa.table({"n": [1000]}))
        else:
            shutil.rmtree(tmp_path / "table" / "_delta_log")
        if change == "replaced":
            write_deltalake(table, pa.table({"n": [1000]}))
        said = {"schema": "has the columns", "error mode": "since the job started"}.get(
            change, f"was {change}"
        )
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
    changed = pa.table({"n": ["x"]})
    write_deltalake(str(tmp_path / "table"), changed, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(CommitError, match="has the columns"):
        run(sinks_of(tmp_path))
    DeltaTable(str(tmp_path / "table")).restore(0)
    assert run(sinks_of(tmp_path)) is False
    assert visible(tmp_path) == (ALL, [*ALL, 1000])


def test_a_column_that_others_add_after_the_decision_is_null(tmp_path, failing):
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"n": [1000]}))
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    write_deltalake(table, pa.table({"n": [2000], "more": ["x"]}), mode="append", schema_mode="merge")
    assert run(sinks_of(tmp_path)) is False
    assert visible(tmp_path) == (ALL, [*ALL, 1000, 2000])
    assert DeltaTable(table).to_pyarrow_table()["more"].drop_null().to_pylist() == ["x"]


def test_rows_that_a_vacuum_took_after_the_decision_are_not_promised(tmp_path, failing):
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"n": [1000]}))
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    for _ in range(2):
        with pytest.raises(CommitError, match=r"cannot be finished: sink 'table' .* are missing") as raised:
            run(sinks_of(tmp_path))
        assert "published: 'files'; not published: 'table'" in str(raised.value)
        assert "staged" not in str(raised.value)
        assert "publishes the rest" not in str(raised.value.hint)
        assert "into 'files' a second time" in str(raised.value.hint)
    (found,) = runs_in(table)
    assert recover("--abandon", found.short_id, tmp_path) == 0
    assert run(sinks_of(tmp_path))
    assert visible(tmp_path) == (sorted(ALL * 2), [*ALL, 1000])
    assert hidden(tmp_path) == []


def test_a_feature_after_the_decision_can_be_dropped_again(tmp_path, failing):
    table = str(tmp_path / "table")
    with pytest.raises(CommitError):
        run(sinks_of(tmp_path))
    failing()
    write_deltalake(table, pa.table({"n": [1000]}))
    versions = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["rowTracking", "domainMetadata"],
    }
    add_commit(table, 1, {"protocol": versions})
    with pytest.raises(CommitError, match=r"is not finished: .*the table feature rowTracking"):
        run(sinks_of(tmp_path))
    add_commit(table, 2, {"protocol": {**versions, "writerFeatures": ["appendOnly"]}})
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
    (found,) = runs_in(str(tmp_path / "table"))
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
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
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
        finish_earlier_runs(NextRun("two sinks", "as before", sinks))
    assert finish_earlier_runs(NextRun("two sinks", "as before", sinks)) == opened.run
    assert [line.split()[1:] for line in (tmp_path / "listed").read_text().splitlines()] == [["1", "0"]]
    assert visible(tmp_path) == BOTH
    alone, _ = begin([mine])
    with alone:
        assert list(runs_in(str(tmp_path / "state"))) == [alone.run]
        commit_run(alone, [one])


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
