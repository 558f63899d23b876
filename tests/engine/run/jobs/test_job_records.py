"""The list of jobs: what its folders hold, and what becomes of those whose driver has died."""

import json
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock.engine.machine.folders import STATE_DIR, this_process
from penstock.engine.run.runtime.job_records import (
    SubmittedJob,
    find_job,
    jobs_folder,
    jobs_of_other_formats,
    list_jobs,
    make_job_folder,
    read_again,
    remove_old_jobs,
    write_state,
)
from penstock.plans.errors import InputError
from penstock.plans.tables import TABLES

STATES = ("FINISHED", "RUNNING", "SCHEDULED")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))


def tables(job_id, state="RUNNING", failure=None):
    at = datetime(2026, 11, 23, tzinfo=UTC)
    run = {
        "topology_id": 1,
        "run_id": job_id,
        "name": "a",
        "state": state,
        "runtime_mode": "STREAMING",
        "started_at": at,
        "milliseconds": 5,
        "vertices": 1,
        "subtasks": 3,
        "attempts": 2,
        "failure": failure,
    }
    executions = [
        {
            "topology_id": 1,
            "vertex": 1,
            "subtask": subtask,
            "attempt_number": 0,
            "attempt_id": f"{job_id}_v_{subtask}_0",
            "state": one,
            "state_timestamps": [("CREATED", at)],
        }
        for subtask, one in enumerate(STATES)
    ]
    return {
        "runs": pa.Table.from_pylist([run], TABLES["runs"]),
        "executions": pa.Table.from_pylist(executions, TABLES["executions"]),
    }


def listed(number, state="RUNNING", owner=None, **more):
    job = SubmittedJob(
        job_id=f"{number:032x}", name="a", started_at=number, owner=owner or this_process(), **more
    )
    plan = {"topologies": pa.table({"name": ["a"]})}
    return make_job_folder(job, plan, tables(job.job_id, state), None)


def dead_owner():
    child = subprocess.Popen(["true"])
    child.wait()
    return {**this_process(), "pid": str(child.pid)}


def test_jobs_are_listed_latest_first_and_found_by_prefix():
    assert list_jobs() == []
    listed(0xAB << 120 | 1, arguments=("x",))
    listed(0xAC << 120 | 2, "FINISHED")
    assert [one.state for one in list_jobs()] == ["FINISHED", "RUNNING"]
    assert find_job("AB").submitted.arguments == ("x",)
    assert find_job("ab").table("topologies").to_pylist() == [{"name": "a"}]
    with pytest.raises(InputError, match="2 jobs have ids that begin with 'a'"):
        find_job("a")
    for prefix in ("f", "", "*", "../"):
        with pytest.raises(InputError, match="there is no job"):
            find_job(prefix)


def test_a_job_whose_driver_has_died_is_failed():
    folder = listed(1, owner=dead_owner())
    (found,) = list_jobs()
    assert (found.state, found.driver_died) == ("FAILED", True)
    assert "its driver has died" in str(found.failure)
    assert found.table("executions")["state"].to_pylist() == ["FINISHED", "FAILED", "FAILED"]
    (run,) = found.table("runs").to_pylist()
    assert (run["state"], run["failure"]) == ("FAILED", found.failure)
    write_state(folder, tables(found.job_id, "FINISHED"))
    assert read_again(found).state == "FINISHED"


def test_a_driver_on_another_machine_counts_as_dead_once_it_is_silent():
    elsewhere = {**this_process(), "host": "elsewhere", "machine": "x", "boot": "y"}
    folder = listed(1, owner=elsewhere)
    assert find_job("0").state == "RUNNING"
    os.utime(folder / "job.json", (1, 1))
    assert find_job("0").state == "FAILED"


def test_what_is_no_job_is_passed_over(tmp_path):
    listed(1)
    for name, text in (("f" * 32, "{"), ("e" * 32, "[]"), ("d" * 32, "{}"), ("x", "")):
        (jobs_folder() / name).mkdir()
        (jobs_folder() / name / "job.json").write_text(text)
    assert len(list_jobs()) == 1
    (other,) = jobs_of_other_formats()
    assert other.message.startswith(f"job {'d' * 32} is recorded in format unknown; Penstock ")


def test_only_the_latest_ended_jobs_stay_listed():
    for number in range(6):
        listed(number, "RUNNING" if number == 0 else "FINISHED")
    remove_old_jobs(2)
    assert [one.submitted.started_at for one in list_jobs()] == [5, 4, 0]
    assert sorted(one.name for one in jobs_folder().iterdir()) == sorted(one.job_id for one in list_jobs())


def test_a_folder_that_cannot_be_made_has_no_jobs(monkeypatch):
    monkeypatch.setenv(STATE_DIR, "/dev/null/none")
    assert list_jobs() == []


def test_folders_are_readable_by_this_user_only():
    folder = listed(1)
    assert folder.stat().st_mode & 0o077 == 0


def test_fields_of_later_versions_are_passed_over():
    folder = listed(1)
    job = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**job, "more": 1}))
    assert replace(find_job("0").submitted, owner={}).name == "a"
