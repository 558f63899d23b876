"""File systems without hard links: one side decides, and what it decided is read whole."""

import errno
import os
import threading

import pyarrow.fs as fs
import pytest

from penstock.engine.run.runtime import job_records as job_folder
from penstock.engine.store import plan_versions
from penstock.operators.files.durable_files import read_once_written, remove_once_written, write_once
from tests.engine.run.commits.test_killed_drivers import killed_run, recover, steps_of_a_run
from tests.engine.run.commits.two_sinks import BOTH, NOTHING, run, sinks_of, visible


@pytest.fixture(params=[errno.EPERM, errno.EIO])
def _no_links(monkeypatch, request):
    def refuse(*_, **__):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_links")
def test_one_of_several_decides(tmp_path):
    system = fs.LocalFileSystem()
    for race in range(100):
        path = str(tmp_path / str(race))
        won: list[int] = []
        start = threading.Barrier(3)

        def decide(side, path=path, won=won, start=start):
            start.wait()
            if write_once(system, path, {"side": side, "text": "x" * 10_000}):
                won.append(side)

        threads = [threading.Thread(target=decide, args=(side,)) for side in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert won == [read_once_written(system, path)["side"]]
    assert len(os.listdir(tmp_path)) == 100
    remove_once_written(system, str(tmp_path / "0"))
    assert read_once_written(system, str(tmp_path / "0")) is None


@pytest.mark.parametrize("name", ["file", "link"])
def test_what_may_not_be_removed_is_no_folder(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder")

    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        remove_once_written(fs.LocalFileSystem(), str(tmp_path / name))
    assert (tmp_path / "folder").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_no_links")
def test_kills_are_survived_without_links(tmp_path):
    steps = steps_of_a_run(tmp_path / "whole")
    seen = set()
    for step in range(2, steps, 11):
        folder = tmp_path / str(step)
        folder.mkdir()
        killed_run(folder, step)
        assert recover(folder) == 0
        seen.add(visible(folder) == BOTH)
        assert visible(folder) in (NOTHING, BOTH), step
        run(sinks_of(folder), fingerprint="another")
    assert seen == {True, False}


@pytest.mark.usefixtures("_no_links")
def test_a_note_that_is_there_stays(tmp_path):
    (tmp_path / "staged").write_text("new")
    (tmp_path / "noted").write_text("old")
    plan_versions._name_if_free(str(tmp_path / "staged"), str(tmp_path / "noted"))
    assert (tmp_path / "noted").read_text() == "old"
    assert not (tmp_path / "staged").exists()


@pytest.mark.usefixtures("_no_links")
def test_the_log_of_a_detached_driver_becomes_its_jobs(tmp_path):
    log = tmp_path / ".abc.log"
    with log.open("w") as driver:
        driver.write("before\n")
        driver.flush()
        job_folder._link_log(log, tmp_path / "log")
        driver.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nafter\n"
    assert not log.exists()


def test_an_answer_that_was_lost_counts(tmp_path, monkeypatch):
    link = os.link

    def twice(source, target):
        link(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", twice)
    assert write_once(fs.LocalFileSystem(), str(tmp_path / "a"), 1)
    assert not write_once(fs.LocalFileSystem(), str(tmp_path / "a"), 2)
