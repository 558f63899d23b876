"""What a job keeps is its user's alone, and is used only if it is as that user's Penstock wrote it."""

import json
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.commands.main import main
from penstock.engine.flink.plan_with_flink import _compiled
from penstock.engine.machine.folders import CACHE_DIR, STATE_DIR, cache_folder, state_folder, state_path
from penstock.engine.run.clusters.session_folder import find_session, latest_session, list_sessions
from penstock.engine.run.commits import journal
from penstock.engine.run.runtime.job_records import jobs_folder, list_jobs, look_up_job
from penstock.engine.run.runtime.kept_script import KeptScript, new_script, scripts_in, state_key
from penstock.engine.spark import class_archive
from penstock.engine.spark.class_archive import remember_jars, remembered_jars
from penstock.engine.spark.find_java import Java
from penstock.operators.common.typeinfo import Types
from penstock.operators.exchange.blocks import decode, encode_values
from penstock.operators.files.durable_files import NotOwnError
from penstock.operators.task.keep_rows import KeptFile, keep_rows, read_rows
from penstock.plans.errors import ConfigurationError, InputError, MachineError
from tests.as_command import as_command

JOB = "a" * 32
JAVA_OF_NONE = Java("/none", "17", 17)
ONE = [pa.RecordBatch.from_pydict({"id": [0]})]


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "a" / "state"))
    before = os.umask(0o002)
    yield
    os.umask(before)


WAYS = {
    "its variable": ({STATE_DIR: "own", CACHE_DIR: "own"}, "own", "own"),
    "XDG": ({"XDG_STATE_HOME": ".", "XDG_CACHE_HOME": "."}, "penstock", "penstock"),
    "HOME": ({"HOME": "."}, ".local/state/penstock", ".cache/penstock"),
}


@pytest.fixture(params=WAYS)
def found(request, tmp_path, monkeypatch):
    """Folders of state and cache, made by this user, that are found in one of the ways there are."""
    for name in (STATE_DIR, CACHE_DIR, "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    variables, state, cache = WAYS[request.param]
    for name, place in variables.items():
        monkeypatch.setenv(name, str(tmp_path / place))
    assert (state_folder("jobs"), cache_folder()) == (tmp_path / state / "jobs", tmp_path / cache)
    return tmp_path / state, tmp_path / cache


REFUSED = {
    "of another": "belongs to user",
    "group writes": "others may write it",
    "all write": "others may write it",
    "a link of another": "is a link of user",
}


@pytest.mark.parametrize("case", REFUSED)
def test_folders_that_others_may_fill_are_refused(found, case, monkeypatch):
    state = found[0]
    monkeypatch.setattr(class_archive, "handles_signals", lambda: False)
    remember_jars({}, Path(__file__).as_uri())
    assert remembered_jars({}) == [Path(__file__)]
    for folder in dict.fromkeys(found):
        if case == "a link of another":
            folder.rename(folder.with_name("elsewhere"))
            folder.symlink_to("elsewhere")
            state_folder(), cache_folder()
        elif case != "of another":
            folder.chmod(0o770 if case == "group writes" else 0o707)
    if case.endswith("of another"):
        status = os.lstat
        foreign = lambda path, **options: os.stat_result([*status(path)[:4], 4711, *status(path)[5:]])  # noqa: E731
        monkeypatch.setattr("penstock.operators.files.durable_files.os.lstat", foreign)
    handed_out: tuple[Any, ...] = (
        state_path,
        state_folder,
        jobs_folder,
        cache_folder,
        journal.state_folder,
        state_key,
    )
    for hand_out in (*handed_out, lambda: _compiled(Path(__file__).parent, "none", Path(), JAVA_OF_NONE)):
        with pytest.raises((NotOwnError, ConfigurationError), match=REFUSED[case]) as refused:
            hand_out()
        assert "(PENSTOCK_" in str(refused.value)
    readers: tuple[Any, ...] = (
        list_jobs,
        list_sessions,
        lambda: look_up_job(JOB),
        lambda: find_session("mine"),
    )
    for read in readers:
        with pytest.raises(MachineError, match=f"{state} is not used: .*{REFUSED[case]}"):
            read()
    assert remembered_jars({}) is None
    assert latest_session() is None


def test_a_folder_in_the_state_that_others_may_fill_is_refused(tmp_path):
    state_folder("jobs").chmod(0o777)
    with pytest.raises(NotOwnError, match="jobs is not used: others may write it"):
        jobs_folder()
    with pytest.raises(NotOwnError, match="jobs is not used"):
        state_folder("jobs", "deeper")


def test_a_command_names_the_folder_that_it_does_not_use(tmp_path, capsys, monkeypatch):
    state_folder().chmod(0o757)
    monkeypatch.setattr("sys.argv", ["penstock", "list"])
    with as_command(), pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.splitlines()[0]) == (
        MachineError.exit_code,
        f"penstock: {tmp_path}/a/state is not used: others may write it (PENSTOCK_STATE_DIR names another)",
    )


def kept_vertex(tmp_path):
    """A job that keeps a vertex of one file."""
    job = new_script(str(tmp_path / "new" / "kept")).job(0)
    job.begin({}, JOB)
    row = pa.RecordBatch.from_pydict({"payload": [pickle.dumps(["a"])]})
    (told,) = keep_rows(lambda batches: iter([row]), job.begin_vertex("v"))(iter([]))
    files = [KeptFile(**one) for one in told.to_pylist()]
    job.complete_vertex("v", files)
    return job, files


def test_only_the_user_can_read_what_is_kept(tmp_path):
    job, files = kept_vertex(tmp_path)
    assert job.files_of("v") == files
    for folder in (tmp_path / "new", tmp_path / "a"):
        for path in (folder, *folder.rglob("*")):
            mode = 0o700 if path.is_dir() else 0o600
            assert stat.S_IMODE(path.stat().st_mode) == mode, path
    assert state_folder("deep", "er").is_dir()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_a_file_that_was_rewritten_is_not_read(tmp_path):
    job, files = kept_vertex(tmp_path)
    path = Path(job.vertex_folder("v"), files[0].name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert job.files_of("v") == files  # of the same size
    with pytest.raises(ValueError, match="has changed since it was written"):
        list(read_rows(job.vertex_folder("v"), files)(iter(ONE)))


@pytest.mark.parametrize("change", ["digest", "code", "nothing", "another vertex", "state", "no JSON"])
def test_what_others_say_is_complete_is_not(tmp_path, change, monkeypatch):
    job = kept_vertex(tmp_path)[0]
    record, vertex = Path(job.folder, "v.complete"), "v"
    told = json.loads(record.read_text())
    if change == "digest":
        told["files"][0][2] = "0" * 64
    elif change == "code":
        del told["mac"]
    elif change == "nothing":
        told = [1]
    elif change == "another vertex":
        vertex = "w"
        record = record.with_name("w.complete")
    elif change == "state":
        monkeypatch.setenv(STATE_DIR, str(tmp_path / "another"))
    record.write_text("{" if change == "no JSON" else json.dumps(told))
    record.chmod(0o600)
    assert job.files_of(vertex) is None
    assert job.is_of_others(vertex)


def test_runs_of_other_users_are_not_found(tmp_path, monkeypatch):
    kept_vertex(tmp_path)
    kept = str(tmp_path / "new" / "kept")
    (script,) = scripts_in(kept)
    os.chmod(script.folder, 0o770)
    assert scripts_in(kept) == []
    with pytest.raises(InputError, match="others may write it"):
        KeptScript(script.folder).claim()
    os.chmod(script.folder, 0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert scripts_in(kept) == []


def test_the_key_stays_and_is_the_users(tmp_path):
    key = state_key()
    assert len(key) == 32
    assert state_key() == key
    assert stat.S_IMODE(Path(state_folder(), "key").stat().st_mode) == 0o600


def test_whether_a_block_is_a_pickle_is_for_the_plan_to_say():
    block = pa.py_buffer(encode_values([1, 2], None, None, 7))
    assert decode(block, None).values == [1, 2]
    with pytest.raises(ValueError, match="is marked as a pickle"):
        decode(block, Types.LONG())
    typed = pa.py_buffer(encode_values([1, 2], None, Types.LONG(), 7))
    assert decode(typed, Types.LONG()).values == [1, 2]
