"""The jobs that are listed: what was submitted, how they go, and what became of those whose driver died.

A folder is `state_folder("jobs")/<job id>`. Only the driver writes into it, but for `cancel`:

| file | holds |
|---|---|
| `job.json` | what was submitted (`SubmittedJob`); written once |
| `plan/<table>.arrow` | every table of the plan that runs |
| `runs.arrow`, `executions.arrow` | how it goes, in the schemas of plans.tables; replaced whole |
| `cancel` | somebody asks the driver to cancel the job |
| `log` | standard output and standard error of a detached driver |

Nothing here imports pyspark.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from penstock.engine.machine.available_memory import import_root
from penstock.engine.machine.machine_error import machine_error
from penstock.engine.machine.replace_file import make_durable, replace_file
from penstock.engine.machine.state_folder import describe_owner, liveness, state_folder
from penstock.engine.machine.stop_on_signals import end_processes
from penstock.operators.files.durable_files import NotOwnError, create_private_file
from penstock.operators.functions.add_up_metrics import Metrics, add_up_metrics
from penstock.plans.errors import InputError, MachineError

# What a job's folder holds, and under which names.


JOB, PLAN, RUNS, EXECUTIONS, CANCEL, LOG = (
    "job.json",
    "plan",
    "runs.arrow",
    "executions.arrow",
    "cancel",
    "log",
)

_JOB_ID = re.compile("[0-9a-f]{32}")

_FINAL_STATES = frozenset({"FINISHED", "FAILED", "CANCELED"})
"""States of a job that is over (JobStatus.isGloballyTerminalState)."""


@dataclass(frozen=True, kw_only=True)
class SubmittedJob:
    """What job.json says: what was submitted, by whom."""

    job_id: str  #: 32 hex digits
    name: str
    script: str | None = None  #: as it was given
    arguments: tuple[str, ...] = ()  #: of the script, without secrets
    options: tuple[str, ...] = ()  #: of `penstock run`, without secrets
    working_folder: str | None = None
    cluster_kind: str = "local"
    master: str | None = None
    session: str | None = None
    detached: bool = False
    runtime_mode: str = "STREAMING"  #: or BATCH
    started_at: int = 0  #: milliseconds since the epoch
    owner: Mapping[str, str] = field(default_factory=dict)  #: run_owner.this_process of the driver
    store: str | None = None  #: that the run is recorded in
    kept_in: str | None = None  #: the folder of its finished data sets (`--checkpoint-dir`)
    resumed: str | None = None  #: the id of the job that it goes on with
    kept_vertices: tuple[int, ...] = ()  #: whose results are those of that job


def jobs_folder() -> Path:
    """The folder of all jobs of this user. OSError where it cannot be made."""
    return state_folder("jobs")


def make_job_folder(
    job: SubmittedJob, plan: Mapping[str, pa.Table], state: Mapping[str, pa.Table], log: Path | None
) -> Path:
    """The folder of a job that was submitted just now, visible at once with all that it holds.

    `log`, a file that a detached driver writes, becomes part of it. OSError where it cannot be made.
    """
    above = jobs_folder()
    unfinished = above / f".{uuid4().hex}.unfinished"
    (unfinished / PLAN).mkdir(parents=True, mode=0o700)
    unfinished.chmod(0o700)
    try:
        (unfinished / JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")
        for name, table in plan.items():
            _write_table(unfinished / PLAN / f"{name}.arrow", table)
        for name, table in state.items():
            _write_table(unfinished / f"{name}.arrow", table)
        if log is not None:
            _keep_log(log, unfinished / LOG)
        files = [os.path.join(folder, name) for folder, _, names in os.walk(unfinished) for name in names]
        make_durable(files, str(unfinished))
        folder = above / job.job_id
        unfinished.rename(folder)
        return folder
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def write_state(folder: Path, state: Mapping[str, pa.Table]) -> None:
    """Replace tables of how a job goes. OSError or MachineError where that fails."""
    for name, table in state.items():
        with replace_file(folder / f"{name}.arrow") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


def _read_job(folder: Path) -> SubmittedJob:
    """What job.json says. OSError, ValueError or TypeError where there is none that Penstock wrote."""
    record: Any = json.loads((folder / JOB).read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError(f"{folder / JOB} holds no object")
    known = {field.name for field in fields(SubmittedJob)}
    values = {name: value for name, value in record.items() if name in known}
    for name in ("arguments", "options", "kept_vertices"):
        values[name] = tuple(values.get(name, ()))
    return SubmittedJob(**values)


def _read_table(path: Path) -> pa.Table:
    """An Arrow IPC file, in memory. OSError or pa.ArrowInvalid where it cannot be read."""
    with path.open("rb") as file:
        return pa.ipc.open_file(file.read()).read_all()


def _remove_job_folder(folder: Path) -> None:
    """Remove a job from the list, at once."""
    hidden = folder.with_name(f".{uuid4().hex}.removed")
    with suppress(FileNotFoundError):
        folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _keep_log(log: Path, name: Path) -> None:
    """Give the log of a detached driver, which writes to it, this name as well.

    Where the file system has no hard links, it gets this name alone; a driver whose log is part of another
    job already goes on with a new one.
    """
    try:
        os.link(log, name)
    except FileNotFoundError:
        raise
    except OSError:
        if log.name != LOG:
            os.rename(log, name)
            return
        descriptor = create_private_file(str(name))
        sys.stdout.flush()
        sys.stderr.flush()
        for standard in (1, 2):
            os.dup2(descriptor, standard)
        os.close(descriptor)


def _write_table(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


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
        return self.state in _FINAL_STATES

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
            rows = _read_table(above / f"{name}.arrow")
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
        ended = [state if state in _FINAL_STATES else "FAILED" for state in rows["state"].to_pylist()]
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
        folders = [path for path in above.iterdir() if _JOB_ID.fullmatch(path.name)]
    except OSError as error:
        raise machine_error(error, "the list of jobs cannot be read") or error from error
    records = [record for folder in folders if (record := _record(folder)) is not None]
    return sorted(records, key=lambda job: (job.submitted.started_at, job.job_id), reverse=True)


def look_up_job(job_id: str) -> JobRecord | None:
    """The job of that id, without a look at others; None where it is not listed."""
    try:
        return _record(jobs_folder() / job_id) if _JOB_ID.fullmatch(job_id) else None
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
        submitted = _read_job(folder)
        lives = _lives(submitted, folder)
        # read after that, or an end in between would be missed
        (run,) = _read_table(folder / RUNS).select(_OF_RUN).to_pylist()
    except (OSError, ValueError, TypeError, KeyError, pa.ArrowInvalid):
        return None
    if submitted.job_id != folder.name:
        return None
    if run["state"] in _FINAL_STATES:
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


# Waiting until a job has ended.


_LOOK_SECONDS = 0.1


def wait_for_job(record: JobRecord) -> JobRecord:
    """The job when it has ended. InputError where it is removed meanwhile."""
    while not record.is_final:
        time.sleep(_LOOK_SECONDS)
        record = read_again(record)
    return record


# The list of jobs stays short: of those that have ended, the latest are kept.


MOST_ENDED = 100
"""Ended jobs that stay listed."""


def remove_old_jobs(most: int = MOST_ENDED) -> None:
    """Remove the folders of ended jobs but for the latest `most`. MachineError where they cannot be read."""
    ended = [record for record in list_jobs() if record.is_final]
    for record in ended[most:]:
        _remove_job_folder(record.folder)


# `penstock run -d`: a driver that outlives the command, and how it says that its job is submitted.


_VARIABLE = "PENSTOCK_DETACHED_DRIVER"
"""Environment variable that tells a process that it is a detached driver: the file of its output, and the
descriptor that gets ids of jobs."""


@dataclass(frozen=True)
class StartedDriver:
    """What became of a driver: the id of its first job, or how it ended without any."""

    job_id: str | None
    exit_code: int | None
    said: str  #: before its first job, where it ended without one


@dataclass(frozen=True)
class DetachedDriver:
    """This process as a detached driver: its log, and where it reports its job."""

    log: Path  #: standard output and standard error
    told: int  #: descriptor that gets ids of jobs


def start_driver(options: Sequence[str], script: str, arguments: Sequence[str]) -> StartedDriver:
    """Start `penstock run` in a session of its own, and wait until its first job is submitted, or it ends.

    `options` are those of `penstock run`. Its standard input is empty; its output goes to the log of its
    jobs. Where this is interrupted before, the driver ends, too. MachineError where the list of jobs cannot
    be written.
    """
    try:
        log = jobs_folder() / f".{uuid4().hex}.log"
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except OSError as error:
        raise MachineError(
            f"the list of jobs, which a detached job is in, cannot be written: {error}"
        ) from error
    reading, writing = os.pipe()
    try:
        driver = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "penstock.engine.commands.main",
                "run",
                *options,
                "--",
                script,
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            start_new_session=True,
            env={**_environment(), _VARIABLE: json.dumps([str(log), writing])},
        )
    finally:
        os.close(descriptor)
        os.close(writing)
    try:
        with os.fdopen(reading, "rb") as ids:
            job_id = ids.readline().decode().strip() or None
        if job_id is not None:
            return StartedDriver(job_id, None, "")
        exit_code = driver.wait()
        return StartedDriver(None, exit_code, log.read_text(encoding="utf-8", errors="replace"))
    except BaseException:
        end_processes([driver.pid])
        raise
    finally:
        with suppress(FileNotFoundError):
            log.unlink()  # the folder of the job has it under another name


def as_detached_driver() -> DetachedDriver | None:
    """This process as a detached driver; None if it is not one. Its own children are not."""
    handed_over = os.environ.pop(_VARIABLE, None)
    if handed_over is None:
        return None
    log, told = json.loads(handed_over)
    os.set_inheritable(told, False)
    return DetachedDriver(Path(log), told)


def _environment() -> dict[str, str]:
    """In which the driver finds this very Penstock, and its output is in the log at once."""
    root = str(import_root())
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}


# How the vertices of a job are doing, from its table `executions`.


# What the functions of a job have measured, as people read it.


def measured_texts(metrics: Metrics) -> Iterator[str]:
    """A line for each metric, as people read it. Names are the author's: they may hold anything."""
    for operator, values in metrics.items():
        for name, value in values.items():
            shown = f"{value:,}" if isinstance(value, int | float) else _distribution(value)
            yield f"{operator}: {name} {shown}"


def _distribution(value: Any) -> str:
    if not isinstance(value, Mapping) or not value.get("count"):
        return str(value)
    mean = value["sum"] / value["count"]
    return f"{value['min']:,} to {value['max']:,}, mean {mean:,.4g} of {value['count']:,}"


_DECISIVE = ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING")
"""The first of these that a subtask is in is the state of its vertex."""


_OF_EXECUTIONS = (
    *("vertex", "subtask", "attempt_number", "state", "host"),
    *("records_in", "records_out", "bytes_in", "bytes_out", "failure", "metrics"),
)
"""Columns that are read; timestamps would take pandas, whose import takes long."""


@dataclass(frozen=True, kw_only=True)
class VertexState:
    """A vertex; counts are those of the latest attempt of each subtask."""

    vertex: int
    name: str
    parallelism: int
    state: str  #: ExecutionState
    subtasks: dict[str, int]  #: how many are in each ExecutionState
    attempts: int  #: that ran
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    failures: tuple[str, ...]  #: of all attempts
    kept: bool  #: an earlier run has done it: it was not run
    metrics: dict[str, dict[str, Any]]  #: what functions have measured, by operator and name


def vertex_states(record: JobRecord) -> list[VertexState]:
    """The vertices of a job in topological order. InputError where its tables cannot be read.

    Source: org.apache.flink.runtime.executiongraph.ExecutionJobVertex.getAggregateJobVertexState.
    """
    table = record.table("executions")
    columns = [name for name in _OF_EXECUTIONS if name in table.column_names]
    executions = table.select(columns).to_pylist()
    executions.sort(key=lambda row: (row["vertex"], row["subtask"], row["attempt_number"]))
    sizes = {row["vertex"]: row["parallelism"] for row in record.table("execution_job_vertices").to_pylist()}
    vertices = record.table("job_vertices").to_pylist()
    vertices_so_far = []
    for vertex in sorted(vertices, key=lambda row: row["topological_order"]):
        mine = [row for row in executions if row["vertex"] == vertex["vertex"]]
        latest = {row["subtask"]: row for row in mine}.values()
        states = Counter(row["state"] for row in latest)
        done = record.state == "FINISHED" or vertex["vertex"] in record.submitted.kept_vertices
        kept = done and not mine
        vertices_so_far.append(
            VertexState(
                vertex=vertex["vertex"],
                name=vertex["name"],
                parallelism=sizes[vertex["vertex"]],
                state="FINISHED" if kept else _aggregate_state(states, sizes[vertex["vertex"]]),
                subtasks=dict(states),
                attempts=sum(row["host"] is not None for row in mine),
                records_in=sum(row["records_in"] or 0 for row in latest),
                records_out=sum(row["records_out"] or 0 for row in latest),
                bytes_in=sum(row["bytes_in"] or 0 for row in latest),
                bytes_out=sum(row["bytes_out"] or 0 for row in latest),
                failures=tuple(dict.fromkeys(row["failure"] for row in mine if row["failure"])),
                kept=kept,
                metrics=add_up_metrics(json.loads(row.get("metrics") or "{}") for row in latest),
            )
        )
    return vertices_so_far


def _aggregate_state(states: Counter[str], parallelism: int) -> str:
    decisive = next((state for state in _DECISIVE if states[state]), None)
    if decisive is not None:
        return decisive
    if states["FINISHED"]:
        return "FINISHED" if states["FINISHED"] == parallelism else "RUNNING"
    return "CREATED"
