"""The jobs that are listed: what was submitted, how they go, and what became of those whose driver died."""

import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.engine.machine.machine_error import machine_error
from penstock.engine.machine.run_owner import describe_owner, liveness
from penstock.engine.run.jobs.job_folder import (
    CANCEL,
    EXECUTIONS,
    FINAL_STATES,
    JOB,
    JOB_ID,
    LOG,
    PLAN,
    RUNS,
    SubmittedJob,
    jobs_folder,
    read_job,
    read_table,
)
from penstock.operators.files.private_files import NotOwnError
from penstock.plans.errors import InputError

LONGEST_SILENCE_SECONDS = 600.0
"""A driver on a machine that cannot be asked counts as dead after this time without a sign of life."""

_OF_RUN = ["state", "failure", "milliseconds"]
"""Columns that are read of `runs`; timestamps would take pandas, whose import takes long."""


@dataclass(frozen=True)
class JobRecord:
    """A job as its folder shows it, read when it was made."""

    submitted: SubmittedJob
    folder: Path
    state: str  #: JobStatus; FAILED where its driver has died before its end
    failure: str | None  #: why it did not finish
    milliseconds: int  #: from its submission to its end, or to now
    driver_died: bool = False

    @property
    def job_id(self) -> str:
        """The JobID: 32 hex digits."""
        return self.submitted.job_id

    @property
    def is_final(self) -> bool:
        """Whether it is over."""
        return self.state in FINAL_STATES

    @property
    def log(self) -> Path | None:
        """Standard output and standard error of its driver; None where a terminal has these."""
        path = self.folder / LOG
        return path if path.exists() else None

    def table(self, name: str) -> pa.Table:
        """A table of its plan, or `runs` or `executions` as they are now. InputError where it has none.

        Of a job whose driver has died, what had not ended is FAILED.
        """
        above = self.folder if f"{name}.arrow" in (RUNS, EXECUTIONS) else self.folder / PLAN
        try:
            rows = read_table(above / f"{name}.arrow")
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(f"job {self.job_id}: table {name} cannot be read: {error}") from error
        return self._ended(name, rows) if self.driver_died else rows

    def ask_to_cancel(self) -> None:
        """Ask its driver to cancel it; the driver looks every half second. OSError where that cannot be."""
        (self.folder / CANCEL).touch(mode=0o600)

    def _ended(self, name: str, rows: pa.Table) -> pa.Table:
        if name not in ("runs", "executions"):
            return rows
        place = rows.schema.get_field_index("state")
        ended = [state if state in FINAL_STATES else "FAILED" for state in rows["state"].to_pylist()]
        field = rows.schema.field(place)
        rows = rows.set_column(place, field, pa.array(ended, field.type))
        if name == "runs":
            place = rows.schema.get_field_index("failure")
            said = pa.array([self.failure] * len(rows), rows.schema.field(place).type)
            rows = rows.set_column(place, rows.schema.field(place), said)
        return rows


def list_jobs() -> list[JobRecord]:
    """All jobs of this user that are listed, the latest first. MachineError where they cannot be read."""
    try:
        above = jobs_folder()
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:  # what cannot be made has no jobs in it
        return []
    try:
        folders = [path for path in above.iterdir() if JOB_ID.fullmatch(path.name)]
    except OSError as error:
        raise machine_error(error, "the list of jobs cannot be read") or error from error
    records = [record for folder in folders if (record := _record(folder)) is not None]
    return sorted(records, key=lambda job: (job.submitted.started_at, job.job_id), reverse=True)


def look_up_job(job_id: str) -> JobRecord | None:
    """The job of that id, without a look at others; None where it is not listed."""
    try:
        return _record(jobs_folder() / job_id) if JOB_ID.fullmatch(job_id) else None
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:
        return None


def find_job(prefix: str) -> JobRecord:
    """The job whose id begins with `prefix`. InputError where there is none, or several."""
    wanted = prefix.strip().lower()
    matching = [record for record in list_jobs() if record.job_id.startswith(wanted)] if wanted else []
    if not matching:
        raise InputError(f"there is no job {prefix!r}", "`penstock list` shows the jobs and their ids")
    if len(matching) > 1:
        ids = ", ".join(record.job_id for record in matching[:5])
        raise InputError(
            f"{len(matching)} jobs have ids that begin with {prefix!r}: {ids}" + ", …" * (len(matching) > 5),
            "give more of its digits",
        )
    return matching[0]


def read_again(record: JobRecord) -> JobRecord:
    """The same job as it is now. InputError where it is no longer listed."""
    current = _record(record.folder)
    if current is None:
        raise InputError(f"job {record.job_id} is no longer listed")
    return current


def driver_lives(record: JobRecord) -> bool:
    """Whether the process that runs the job is there; it may have further jobs."""
    return _lives(record.submitted, record.folder)


def _record(folder: Path) -> JobRecord | None:
    """None where the folder is not a job's, or is being removed."""
    try:
        submitted = read_job(folder)
        lives = _lives(submitted, folder)
        # read after that, or an end in between would be missed
        (run,) = read_table(folder / RUNS).select(_OF_RUN).to_pylist()
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowInvalid):
        return None
    if submitted.job_id != folder.name:
        return None
    if run["state"] in FINAL_STATES:
        return JobRecord(submitted, folder, run["state"], run["failure"], run["milliseconds"])
    if lives:
        elapsed = int(time.time() * 1000) - submitted.started_at
        return JobRecord(submitted, folder, run["state"], None, elapsed)
    died = f"its driver has died ({describe_owner(submitted.owner)})"
    return JobRecord(submitted, folder, "FAILED", died, run["milliseconds"], driver_died=True)


def _lives(submitted: SubmittedJob, folder: Path) -> bool:
    try:
        state = liveness(submitted.owner)
    except (KeyError, ValueError):
        return False
    if state != "unknown":
        return state == "alive"
    try:
        return time.time() - (folder / JOB).stat().st_mtime < LONGEST_SILENCE_SECONDS
    except OSError:
        return False
