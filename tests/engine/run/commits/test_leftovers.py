"""What failed and killed runs leave on the disk: what is shown, removed, and never touched."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyarrow import fs

from penstock.connectors import TextSink
from penstock.engine.machine import folders as temporary_folders
from penstock.engine.run.commits import find_leftovers, journal
from penstock.engine.run.commits import journal as find_journals
from penstock.engine.run.commits.commit_run import CommitError, JobSink, commit_run
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors import staged_files
from penstock.operators.connectors.commit_delta import DeltaSink
from penstock.operators.files import durable_files
from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.test_killed_drivers import recover
from tests.engine.run.commits.two_sinks import (
    ALL,
    BOTH,
    DEAD,
    ROWS,
    begin,
    hidden,
    run,
    sinks_of,
    stage,
    visible,
)


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
    (found,) = runs_in(str(tmp_path / "files"))
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

    for module in (journal, find_journals, staged_files, find_leftovers):
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
    for limited in ([tmp_path], ["--clean", tmp_path]):
        assert recover(*limited) == 0
        assert "penstock-py" not in capsys.readouterr().out
    assert left.exists()
    assert recover("--temporary", tmp_path) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "penstock-py" in line]
    assert line.split("\t")[:2] == [str(left), "7"]
    assert recover("--clean", "--temporary", tmp_path) == 0
    assert (mine.exists(), left.exists()) == (True, False)


def test_a_short_lived_folder_is_removed_when_it_is_done_with_and_known_by_its_name_before(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folders.short_lived_folder("diff") as folder:
        assert list(tmp_path.iterdir()) == [Path(folder)]
        assert list(temporary_folders.left_temporary_folders()) == []
        monkeypatch.setattr(temporary_folders, "process_is_running", lambda pid, started: pid != os.getpid())
        assert list(temporary_folders.left_temporary_folders()) == [Path(folder)]
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there(tmp_path, capsys):
    assert recover(tmp_path / "nowhere") == 3
    assert "no such folder" in capsys.readouterr().err


def test_a_data_file_that_an_earlier_version_names_is_no_leftover(tmp_path, monkeypatch):
    """Readers of that version need it, also when the table has forgotten its transaction."""
    run(sinks_of(tmp_path))
    DeltaTable(str(tmp_path / "table")).delete()
    (tmp_path / "table" / "_delta_log" / "notes.txt").write_text('{"path":"part"}')
    monkeypatch.setattr(find_leftovers, "has_write", lambda table, write_id: False)
    assert len(list((tmp_path / "table").glob("part-*.parquet"))) == 2
    assert find_leftovers.find_leftovers([str(tmp_path)]).leftovers == ()
