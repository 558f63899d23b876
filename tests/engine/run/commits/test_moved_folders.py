"""A sink is where its journal lies: folders that were moved after a kill, together or one by one."""

import shutil

import pytest

from tests.engine.run.commits.journals import runs_in
from tests.engine.run.commits.test_killed_drivers import killed_run, recover, steps_of_a_run
from tests.engine.run.commits.two_sinks import BOTH, NOTHING, hidden, run, sinks_of, visible


@pytest.mark.slow
@pytest.mark.parametrize("again", ["recover", "run"])
def test_a_folder_that_was_moved_is_settled_where_it_is(tmp_path, capsys, again):
    steps = steps_of_a_run(tmp_path / "whole")
    seen = set()
    for step in range(3, steps, 9):
        before, now = tmp_path / str(step), tmp_path / "elsewhere" / str(step)
        before.mkdir()
        assert killed_run(before, step)
        now.parent.mkdir(exist_ok=True)
        before.rename(now)
        if again == "recover":
            assert recover(now) == 0
            said = capsys.readouterr().out
            found = visible(now)
            assert found in (NOTHING, BOTH), step
            assert ("finished: everything is published" not in said) or found == BOTH, step
            assert ("none of it is visible" not in said) or found == NOTHING, step
            seen.add(found == BOTH)
        else:
            is_known = any(runs_in(str(now / "files")))
            run(sinks_of(now))
            assert visible(now) == BOTH or not is_known, step
        assert not before.exists()
        assert [one for one in hidden(now) if not one.endswith(".penstock-runs")] == [], step
    assert again == "run" or seen == {True, False}


def test_what_lies_at_the_old_place_is_not_touched(tmp_path, failing, capsys):
    before, now = tmp_path / "a", tmp_path / "b"
    with pytest.raises(Exception, match="the store is away"):
        run(sinks_of(before))
    failing()
    shutil.copytree(before, now)
    untouched = {path: path.read_bytes() for path in before.rglob("*") if path.is_file()}
    assert recover(now) == 0
    assert visible(now) == BOTH
    assert {path: path.read_bytes() for path in before.rglob("*") if path.is_file()} == untouched
    assert recover(before) == 0
    assert visible(before) == BOTH


def test_folders_that_were_moved_apart_are_named_together(tmp_path, failing, capsys):
    before = tmp_path / "before"
    with pytest.raises(Exception, match="the store is away"):
        run(sinks_of(before))
    failing()
    places = {"files": tmp_path / "x" / "f", "table": tmp_path / "y" / "t"}
    for name, place in places.items():
        place.parent.mkdir()
        (before / name).rename(place)
    assert recover(places["table"]) == 0  # decisions on it are in the other one
    told = capsys.readouterr()
    assert "if that folder was moved, name its new path, too" in told.err
    assert "no unfinished runs" in told.out
    assert recover(*places.values()) == 0
    assert "finished: everything is published" in capsys.readouterr().out
    (tmp_path / "view").mkdir()
    for name, place in places.items():
        (tmp_path / "view" / name).symlink_to(place)
    assert visible(tmp_path / "view") == BOTH
    assert not before.exists() or list(before.iterdir()) == []


def test_a_sink_whose_folder_is_gone_is_not_written_elsewhere(tmp_path, failing, capsys):
    with pytest.raises(Exception, match="the store is away"):
        run(sinks_of(tmp_path))
    failing()
    (tmp_path / "table").rename(tmp_path / "away")
    (tmp_path / "table").mkdir()
    assert recover(tmp_path / "files") == 1
    assert "does not have its part of the journal" in capsys.readouterr().err
    assert list((tmp_path / "table").iterdir()) == []
    (tmp_path / "table").rmdir()
    (tmp_path / "away").rename(tmp_path / "table")
    assert recover(tmp_path) == 0
    assert visible(tmp_path) == BOTH
