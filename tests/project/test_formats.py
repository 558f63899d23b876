"""Each artefact that outlives a process names its format's version; another version is refused by name."""

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.machine.folders import STATE_DIR, this_process
from penstock.engine.measure.sweep import results_table
from penstock.engine.run.clusters import session_folder
from penstock.engine.run.commits.journal import _other_format
from penstock.engine.run.runtime import job_records
from penstock.engine.run.runtime.recover_jobs import differences
from penstock.engine.store import plan_versions
from penstock.plans.errors import ConfigurationError, InputError, StoreError

SOURCE, SINK = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
JOB = {"name": "a", "transformations": [SOURCE, SINK]}
LATER = "format 2; Penstock 0.1.0 reads format 1"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def state(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))


def test_a_store_is_refused_and_not_repaired(tmp_path, monkeypatch):
    store = tmp_path / "store"
    with monkeypatch.context() as later:
        later.setattr(plan_versions, "STORE_FORMAT", 2)
        penstock.plan(JOB).write(store)
    before = contents(store)
    for use in (
        lambda: penstock.open_store(store),
        lambda: penstock.read_plan(store).tables["topologies"],
        lambda: penstock.plan(JOB, parallelism=2).write(store),
    ):
        with pytest.raises(
            StoreError, match=f"version 1 has {LATER}\n  hint: use the Penstock that wrote it"
        ):
            use()
    for command in (["verify"], ["verify", "--repair"], ["show"], ["export"], ["drop", "--older-than", "0s"]):
        done = CliRunner().invoke(app, [command[0], str(store), *command[1:]])
        assert (done.exit_code, LATER in done.output) == (4, True), (command, done.output)
    assert contents(store) == before


def test_a_session_is_refused_by_its_name(state, monkeypatch, capsys):
    def recorded(name: str) -> session_folder.Session:
        folder = session_folder.folder_of_session(name)
        return session_folder.Session(
            name, "local[2]", 2, 2, "1g", 1, "127.0.0.1", this_process(), 0, "4.2.0", "python", folder
        )

    session_folder.write_session(recorded("mine"))
    with monkeypatch.context() as later:
        later.setattr(session_folder, "SESSION_FORMAT", 2)
        session_folder.write_session(recorded("a later one"))
    with pytest.raises(
        ConfigurationError, match=f"session 'a later one' is recorded in {LATER}\n  hint: use"
    ):
        session_folder.live_session("a later one")
    assert [session.name for session in session_folder.list_sessions()] == ["mine"]
    assert f"session 'a later one' is recorded in {LATER}" in capsys.readouterr().err


def test_a_job_is_refused_by_its_id(state, monkeypatch):
    job = job_records.SubmittedJob(job_id="a" * 32, name="later", owner=this_process())
    runs = pa.table({"run_id": [job.job_id]})
    with monkeypatch.context() as later:
        later.setattr(job_records, "JOB_FORMAT", 2)
        job_records.make_job_folder(job, {}, {"runs": runs}, None)
    assert job_records.list_jobs() == []
    with pytest.raises(InputError, match=f"job {'a' * 32} is recorded in {LATER}"):
        job_records.find_job("aaaa")


def test_results_of_sweeps_are_refused_by_their_folder(tmp_path, monkeypatch):
    spec = {"topologies": {"shape": "chain", "operators": 3}}
    with monkeypatch.context() as later:
        later.setattr(results_table, "RESULTS_FORMAT", 2)
        row = dict.fromkeys(results_table.ABOUT) | {"cell": "c", "repetition": 1}
        results_table.append_rows(str(tmp_path / "sweep"), [row])
    before = contents(tmp_path)
    with pytest.raises(
        StoreError, match=f"the results have {LATER}\n  hint: use the Penstock that wrote them"
    ):
        penstock.sweep(spec, tmp_path / "sweep")
    assert contents(tmp_path / "sweep" / "results") == before


def test_kept_vertices_of_another_format_are_not_gone_on_with():
    now = {"format": 1, "penstock": "0.1.0", "job": "a", "mode": "BATCH", "vertices": {}}
    assert differences(now, now) == []
    assert differences({"format": 2, "nothing": "known"}, now) == ["the format of kept data was 2, is 1"]


def test_a_journal_of_another_format_is_named():
    """It counts for nothing: tests/engine/run/commits/test_foreign_journals.py."""
    assert _other_format(b'{"format": 2}') == f"it has {LATER}"
    assert _other_format(b'{"format": 1}') is None
