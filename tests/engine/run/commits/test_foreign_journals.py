"""Journals, and what lies beside them, that others have written, or nobody has written well."""

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors import TextSink
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.commit_run import CommitError, JobSink, NextRun, finish_earlier_runs
from penstock.engine.run.commits.journal import parts_in
from penstock.operators.common.typeinfo import Types
from penstock.operators.files.durable_files import NotOwnError, read_own_file
from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.test_killed_drivers import killed_run, recover
from tests.engine.run.commits.two_sinks import BOTH, NOTHING, begin, run, sinks_of, stage, visible

ID = "0" * 32


def unfinished(folder, failing):
    """A run of two sinks that is decided to be published, and whose driver has given up."""
    with pytest.raises(CommitError):
        run(sinks_of(folder))
    failing()
    (found,) = runs_in(str(folder / "files"))
    return Path(str(found.parts[0]))


def changed(part, record="owner", **values):
    text = json.loads((part / record).read_text())
    for name, value in values.items():
        *above, last = name.split("__")
        inner = text
        for key in above:
            inner = inner[int(key)] if key.isdecimal() else inner[key]
        inner[last] = value
    (part / record).write_text(json.dumps(text))


MALFORMED = {
    "no JSON": b"{",
    "nothing": b"",
    "no UTF-8": b'{"format": 1, "run_id": "\xff"}',
    "a list": b"[]",
    "a number": b"7",
    "deep": b"[" * 100_000,
    "not a number": b'{"format": 1, "started_at": NaN}',
}

CHANGES: dict[str, dict[str, Any]] = {
    "format": {"format": 2},
    "run_id": {"run_id": "1" * 32},
    "a path for an id": {"run_id": "../../victim"},
    "job": {"job": None},
    "time": {"started_at": "now"},
    "far time": {"started_at": 1e300},
    "owner": {"owner": "me"},
    "a process": {"owner__pid": "1 1"},
    "a machine": {"owner__boot": 7},
    "no folders": {"folders": []},
    "a relative folder": {"folders": ["files"]},
    "a place too far": {"place": 9},
    "sinks": {"sinks": {}},
    "write id runs": {"sinks__0__write_id": "runs"},
    "write id above": {"sinks__0__write_id": "../" * 4},
    "another kind": {"sinks__0__recovery__kind": "shell"},
    "another folder": {"sinks__0__recovery__folder": "/etc"},
    "arguments": {"sinks__0__recovery__arguments": {"mode": "append"}},
    "more": {"something": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_record_is_named_and_passed_over(tmp_path, capsys, content):
    part = tmp_path / "files" / journal.RUNS / ID
    part.mkdir(parents=True, mode=0o700)
    (tmp_path / "files" / journal.RUNS).chmod(0o700)
    (part / "owner").write_bytes(content)
    assert recover(tmp_path) == 0
    assert f"{part} is skipped: " in capsys.readouterr().err
    assert run(sinks_of(tmp_path))
    assert f"{part} is skipped: " in capsys.readouterr().err
    assert visible(tmp_path) == BOTH


@pytest.mark.slow
def test_a_record_that_says_something_else_is_named_and_passed_over(tmp_path, capsys, failing):
    part = unfinished(tmp_path / "run", failing)
    for name, values in CHANGES.items():
        folder = tmp_path / name
        shutil.copytree(tmp_path / "run", folder)
        copied = folder / "files" / journal.RUNS / part.name
        changed(copied, **values)
        shutil.rmtree(folder / "table" / journal.RUNS)
        assert recover(folder) == 0, name
        assert f"{copied} is skipped: " in capsys.readouterr().err, name
        assert run(sinks_of(folder)), name
        assert visible(folder) == BOTH, name


@pytest.mark.slow
def test_a_decision_that_says_something_else_stops_only_its_run(tmp_path, capsys, failing):
    part = unfinished(tmp_path / "run", failing)
    secret = tmp_path / "secret"
    secret.write_text("x")
    decisions: list[dict[str, Any]] = [
        {"publish": 1},
        {"sinks": []},
        {"committables": "none"},
        {"sinks__0__write_id": "runs"},
        {"sinks__0__recovery__folder": str(tmp_path)},
        {"committables__0__0__staged": str(secret)},
        {"committables__0__0__target": str(tmp_path / "victim")},
        {"committables__0__0__size": -1},
    ]
    for number, values in enumerate(decisions):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "run", folder)
        changed(folder / "files" / journal.RUNS / part.name, "decision", **values)
        killed_run(tmp_path / str(number) / "good", 30)
        assert recover(folder) == 1
        assert visible(folder / "good") in (NOTHING, BOTH)
        assert "good" not in capsys.readouterr().err
        assert run(sinks_of(folder), job="another", fingerprint="another")
        assert visible(folder)[0] == BOTH[0]
    assert secret.read_text() == "x"
    assert not (tmp_path / "victim").exists()


def test_journals_of_other_users_are_left_alone(tmp_path, capsys, failing, monkeypatch):
    part = unfinished(tmp_path, failing)
    before = sorted(part.rglob("*"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert recover("--clean", "--older-than", "0", tmp_path) == 0
    assert f"it belongs to user {os.getuid()}" in capsys.readouterr().err
    assert finish_earlier_runs(NextRun("two sinks", "as before", sinks_of(tmp_path))) is None
    assert capsys.readouterr().err == ""  # in a folder that many share, that is nothing to be told of
    monkeypatch.undo()
    assert sorted(part.rglob("*")) == before
    assert recover(tmp_path) == 0
    assert visible(tmp_path) == BOTH


def test_a_user_has_a_folder_of_journals_beside_that_of_another(tmp_path, monkeypatch):
    sinks = [JobSink("files", TextSink(str(tmp_path)), Types.LONG())]
    (tmp_path / journal.RUNS).mkdir()
    (tmp_path / journal.RUNS).chmod(0o777)
    opened, started = begin(sinks)
    with opened:
        own = tmp_path / f"{journal.RUNS}-{os.geteuid()}"
        assert Path(str(opened.run.parts[0])) == own / opened.run.run_id
        assert [run.run_id for run in runs_in(str(tmp_path))] == [opened.run.run_id]
        assert [stat.S_IMODE(one.stat().st_mode) for one in (own, own / opened.run.run_id)] == [0o700] * 2
        assert stat.S_IMODE((own / opened.run.run_id / "owner").stat().st_mode) == 0o600
        stage(started)
    own.rename(tmp_path / "aside")
    own.symlink_to(tmp_path / "aside")
    with pytest.raises(PermissionError, match="others may write them"):
        begin(sinks)


@pytest.mark.parametrize("what", ["runs", "part", "owner", "others write"])
def test_links_and_what_others_may_write_count_for_nothing(tmp_path, capsys, failing, what):
    part = unfinished(tmp_path / "a", failing)
    folder = tmp_path / "b"
    if what == "others write":
        (part / "owner").chmod(0o664)
        folder = tmp_path / "a" / "files"
    elif what == "runs":
        folder.mkdir()
        (folder / journal.RUNS).symlink_to(part.parent)
    else:
        (folder / journal.RUNS).mkdir(parents=True, mode=0o700)
        if what == "part":
            (folder / journal.RUNS / part.name).symlink_to(part)
        else:
            (folder / journal.RUNS / part.name).mkdir(mode=0o700)
            (folder / journal.RUNS / part.name / "owner").symlink_to(part / "owner")
    found, passed = parts_in(str(folder))
    assert found == []
    assert [one.of_others for one in passed] == [True]
    assert recover(folder) == 0
    assert "is skipped: " in capsys.readouterr().err
    assert visible(tmp_path / "a") == NOTHING


def test_staged_folders_that_are_links_are_not_emptied(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("x")
    out = tmp_path / "out"
    out.mkdir()
    (out / f".penstock-{ID}").symlink_to(victim)
    (out / ".penstock-runs-7").mkdir()
    (out / ".penstock-mine").mkdir()
    assert recover("--clean", "--older-than", "0", out) == 0
    assert (victim / "file").read_text() == "x"
    assert len(list(out.iterdir())) == 3


def test_what_cannot_be_read_does_not_hide_the_rest(tmp_path, capsys, failing, monkeypatch):
    unfinished(tmp_path / "good", failing)
    for name in ("closed", "gone"):
        (tmp_path / name).mkdir()
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    broken = tmp_path / "broken" / "_delta_log"
    broken.mkdir(parents=True)
    (broken / f"{0:020}.json").write_text("{}\nnothing\n")
    (tmp_path / "broken" / f"part-00000-{ID}-0-0123456789ab.parquet").write_bytes(b"x")
    scan = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        if str(path).endswith("gone"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert recover(tmp_path) == 0
    told = capsys.readouterr()
    assert f"{tmp_path}/closed is skipped: Permission denied" in told.err
    assert f"{tmp_path}/broken is skipped: its Delta log cannot be read" in told.err
    assert "gone" not in told.err
    assert "finished: everything is published" in told.out
    assert visible(tmp_path / "good") == BOTH
    assert recover("--clean", "--older-than", "0", tmp_path) == 0
    assert len(list((tmp_path / "broken").glob("*.parquet"))) == 1


def test_the_state_folder_of_journals_is_the_one_that_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_STATE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert journal.state_folder() == str(tmp_path / "named")
    assert not (tmp_path / "named").exists()


def test_a_record_of_more_than_a_gibibyte_is_not_read(tmp_path):
    (tmp_path / "record").touch(0o600)
    os.truncate(tmp_path / "record", 2**30 + 1)
    with pytest.raises(NotOwnError, match="1,073,741,825 bytes"):
        read_own_file(str(tmp_path / "record"))
