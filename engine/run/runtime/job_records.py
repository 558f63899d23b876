"""Submission and state of the listed jobs, and the failure of jobs whose driver died.

A folder is `state_folder("jobs")/<job id>`. Only the driver writes into it, except for `cancel`:

| file | content |
|---|---|
| `job.json` | the submission (`SubmittedJob`); written once |
| `plan/<table>.arrow` | every table of the plan that runs |
| `runs.arrow`, `executions.arrow` | the state of the job, in the schemas of plans.tables; replaced whole |
| `cancel` | a request to the driver to cancel the job |
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
from penstock.engine.machine.folders import describe_owner, liveness, state_folder
from penstock.engine.machine.machine_error import machine_error
from penstock.engine.machine.replace_file import make_durable, replace_file
from penstock.engine.machine.stop_on_signals import end_processes
from penstock.operators.files.durable_files import NotOwnError, create_private_file
from penstock.operators.functions.add_up_metrics import Metrics, add_up_metrics
from penstock.plans.errors import InputError, MachineError
from penstock.plans.installation import own_version

# The files of a job's folder.


JOB, PLAN, RUNS, EXECUTIONS, CANCEL, LOG = (
    "job.json",
    "plan",
    "runs.arrow",
    "executions.arrow",
    "cancel",
    "log",
)

JOB_FORMAT = 1
"""Raised whenever an older Penstock would misread a job's folder."""

_JOB_ID = re.compile("[0-9a-f]{32}")

_FINAL_STATES = frozenset({"FINISHED", "FAILED", "CANCELED"})
"""States of a job that is over (JobStatus.isGloballyTerminalState)."""


@dataclass(frozen=True, kw_only=True)
class SubmittedJob:
    """The content of job.json: the submission of a job, and its driver."""

    job_id: str  #: 32 hex digits
    name: str
    script: str | None = None  #: path as it was given
    arguments: tuple[str, ...] = ()  #: arguments of the script, without secrets
    options: tuple[str, ...] = ()  #: options of `penstock run`, without secrets
    working_folder: str | None = None
    cluster_kind: str = "local"
    master: str | None = None
    session: str | None = None
    detached: bool = False
    runtime_mode: str = "STREAMING"  #: or BATCH
    started_at: int = 0  #: milliseconds since the epoch
    owner: Mapping[str, str] = field(default_factory=dict)  #: the driver's process (`this_process`)
    store: str | None = None  #: the store in which the run is recorded
    kept_in: str | None = None  #: the folder of its finished data sets (`--checkpoint-dir`)
    resumed: str | None = None  #: the id of the job that it resumes
    kept_vertices: tuple[int, ...] = ()  #: vertices with results from the resumed job


def jobs_folder() -> Path:
    """Return the folder of all jobs of this user. Raises OSError if it cannot be made."""
    return state_folder("jobs")


def make_job_folder(
    job: SubmittedJob, plan: Mapping[str, pa.Table], state: Mapping[str, pa.Table], log: Path | None
) -> Path:
    """Make the folder of a new job, and return its path; the folder becomes visible with its whole content.

    `log`, a file that a detached driver writes, becomes part of it. Raises OSError if this fails.
    """
    above = jobs_folder()
    unfinished = above / f".{uuid4().hex}.unfinished"
    (unfinished / PLAN).mkdir(parents=True, mode=0o700)
    unfinished.chmod(0o700)
    try:
        (unfinished / JOB).write_text(json.dumps({"format": JOB_FORMAT, **asdict(job)}), encoding="utf-8")
        for name, table in plan.items():
            _write_table(unfinished / PLAN / f"{name}.arrow", table)
        for name, table in state.items():
            _write_table(unfinished / f"{name}.arrow", table)
        if log is not None:
            _link_log(log, unfinished / LOG)
        files = [os.path.join(folder, name) for folder, _, names in os.walk(unfinished) for name in names]
        make_durable(files, str(unfinished))
        folder = above / job.job_id
        unfinished.rename(folder)
        return folder
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def write_state(folder: Path, state: Mapping[str, pa.Table]) -> None:
    """Replace the tables with the state of a job. Raises OSError or MachineError."""
    for name, table in state.items():
        with replace_file(folder / f"{name}.arrow") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


class JobFormatError(InputError):
    """A job was recorded in another format than this Penstock's."""


def _read_job(folder: Path) -> SubmittedJob:
    """Read job.json. Raises OSError, ValueError or TypeError unless Penstock wrote it."""
    record: Any = json.loads((folder / JOB).read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError(f"{folder / JOB} is not a JSON object")
    if (written := record.get("format")) != JOB_FORMAT:
        raise JobFormatError(
            f"job {folder.name} is recorded in format {written or 'unknown'}; "
            f"Penstock {own_version()} reads format {JOB_FORMAT}",
            "use the Penstock that ran it",
        )
    known = {field.name for field in fields(SubmittedJob)}
    values = {name: value for name, value in record.items() if name in known}
    for name in ("arguments", "options", "kept_vertices"):
        values[name] = tuple(values.get(name, ()))
    return SubmittedJob(**values)


def _read_table(path: Path) -> pa.Table:
    """Read an Arrow IPC file into memory. Raises OSError or pa.ArrowInvalid."""
    with path.open("rb") as file:
        return pa.ipc.open_file(file.read()).read_all()


def _remove_job_folder(folder: Path) -> None:
    """Remove a job from the list, atomically."""
    hidden = folder.with_name(f".{uuid4().hex}.removed")
    with suppress(FileNotFoundError):
        folder.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _link_log(log: Path, name: Path) -> None:
    """Give the log of a detached driver, which writes to it, a second name.

    If the file system has no hard links, the log is renamed; if it belongs to another job of the driver
    already, the driver continues with a new log.
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
"""A driver on a machine that cannot be queried counts as dead after this time without a sign of life."""

_RUN_COLUMNS = ["state", "failure", "milliseconds"]
"""Columns read from `runs`; timestamps would need pandas, which is slow to import."""


@dataclass(frozen=True)
class JobRecord:
    """The content of a job's folder, read when the record was made."""

    submitted: SubmittedJob
    folder: Path
    state: str  #: JobStatus; FAILED if its driver has died before its end
    failure: str | None  #: the reason why it did not finish
    milliseconds: int  #: from its submission to its end, or to now
    driver_died: bool = False

    @property
    def job_id(self) -> str:
        """The JobID: 32 hex digits."""
        return self.submitted.job_id

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.state in _FINAL_STATES

    @property
    def log(self) -> Path | None:
        """The file with standard output and standard error of its driver; None if they go to a terminal."""
        path = self.folder / LOG
        return path if path.exists() else None

    def table(self, name: str) -> pa.Table:
        """Return a table of its plan, or the current `runs` or `executions`. Raises InputError if unreadable.

        If the driver has died, states that are not final are replaced by FAILED.
        """
        above = self.folder if f"{name}.arrow" in (RUNS, EXECUTIONS) else self.folder / PLAN
        try:
            rows = _read_table(above / f"{name}.arrow")
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(f"job {self.job_id}: table {name} cannot be read: {error}") from error
        return self._ended(name, rows) if self.driver_died else rows

    def ask_to_cancel(self) -> None:
        """Request its cancellation, which the driver checks for every half second. Raises OSError."""
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
            failures = pa.array([self.failure] * len(rows), rows.schema.field(place).type)
            rows = rows.set_column(place, rows.schema.field(place), failures)
        return rows


def list_jobs() -> list[JobRecord]:
    """Return all listed jobs of this user, the latest first, without jobs of another format.

    Raises MachineError if they cannot be read.
    """
    records: list[JobRecord] = []
    for folder in _job_folders():
        with suppress(JobFormatError):
            if (record := _record(folder)) is not None:
                records.append(record)
    return sorted(records, key=lambda job: (job.submitted.started_at, job.job_id), reverse=True)


def jobs_of_other_formats() -> list[JobFormatError]:
    """Return an error for each job of this user that was recorded in another format."""
    errors = []
    for folder in _job_folders():
        try:
            _record(folder)
        except JobFormatError as error:
            errors.append(error)
    return errors


def _job_folders() -> list[Path]:
    try:
        above = jobs_folder()
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:  # a folder that cannot be made has no jobs
        return []
    try:
        return [path for path in above.iterdir() if _JOB_ID.fullmatch(path.name)]
    except OSError as error:
        raise machine_error(error, "the list of jobs cannot be read") or error from error


def look_up_job(job_id: str) -> JobRecord | None:
    """Return the job with this id, without reading others; None if it is not listed."""
    try:
        return _record(jobs_folder() / job_id) if _JOB_ID.fullmatch(job_id) else None
    except NotOwnError as error:
        raise machine_error(error) or error from error
    except OSError:
        return None


def find_job(prefix: str) -> JobRecord:
    """Return the job whose id begins with `prefix`. Raises InputError unless there is exactly one."""
    wanted = prefix.strip().lower()
    matching = [record for record in list_jobs() if record.job_id.startswith(wanted)] if wanted else []
    if not matching:
        for error in jobs_of_other_formats():
            if wanted and error.message.startswith(f"job {wanted}"):
                raise error
        raise InputError(f"there is no job {prefix!r}", "`penstock list` shows the jobs and their ids")
    if len(matching) > 1:
        ids = ", ".join(record.job_id for record in matching[:5])
        raise InputError(
            f"{len(matching)} jobs have ids that begin with {prefix!r}: {ids}" + ", …" * (len(matching) > 5),
            "give more digits of the id",
        )
    return matching[0]


def read_again(record: JobRecord) -> JobRecord:
    """Return the current record of the same job. Raises InputError if it is no longer listed."""
    current = _record(record.folder)
    if current is None:
        raise InputError(f"job {record.job_id} is no longer listed")
    return current


def driver_lives(record: JobRecord) -> bool:
    """Whether the process that runs the job is alive; it may have further jobs."""
    return _lives(record.submitted, record.folder)


def _record(folder: Path) -> JobRecord | None:
    """Read the record of a job; None if the folder is not a job's, or is being removed."""
    try:
        submitted = _read_job(folder)
        lives = _lives(submitted, folder)
        # read after that, or an end in between would be missed
        (run,) = _read_table(folder / RUNS).select(_RUN_COLUMNS).to_pylist()
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


# Waiting for the end of a job.


_LOOK_SECONDS = 0.1


def wait_for_job(record: JobRecord) -> JobRecord:
    """Wait until the job has ended, and return its record. Raises InputError if it is removed meanwhile."""
    while not record.is_final:
        time.sleep(_LOOK_SECONDS)
        record = read_again(record)
    return record


# The list of jobs stays short: it retains the latest of the jobs that have ended.


MOST_ENDED = 100
"""Ended jobs that stay listed."""


def remove_old_jobs(most: int = MOST_ENDED) -> None:
    """Remove the folders of ended jobs except the latest `most`. Raises MachineError."""
    ended = [record for record in list_jobs() if record.is_final]
    for record in ended[most:]:
        _remove_job_folder(record.folder)


# `penstock run -d`: a driver that outlives the command, and reports to it the submission of its job.


_VARIABLE = "PENSTOCK_DETACHED_DRIVER"
"""Environment variable that makes a process a detached driver: the file of its output, and the descriptor to
which it writes ids of jobs."""


@dataclass(frozen=True)
class StartedDriver:
    """A driver after its start, with the id of its first job, or exit code and output if it had none."""

    job_id: str | None
    exit_code: int | None
    said: str  #: its output, if it ended without a job


@dataclass(frozen=True)
class DetachedDriver:
    """This process as a detached driver, with its log and the channel on which it reports its job."""

    log: Path  #: standard output and standard error
    job_ids: int  #: descriptor to which it writes ids of jobs


def start_driver(options: Sequence[str], script: str, arguments: Sequence[str]) -> StartedDriver:
    """Start `penstock run` in a new process session, and wait until its first job is submitted, or it ends.

    `options` are options of `penstock run`. Its standard input is empty; its output goes to the log of its
    jobs. If the wait is interrupted, the driver is ended. Raises MachineError if the list of jobs cannot be
    written.
    """
    try:
        log = jobs_folder() / f".{uuid4().hex}.log"
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    except OSError as error:
        raise MachineError(
            f"the list of jobs, which a detached job needs, cannot be written: {error}"
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
    """Return this process as a detached driver; None if it is not one. Its child processes are not."""
    variable = os.environ.pop(_VARIABLE, None)
    if variable is None:
        return None
    log, job_ids = json.loads(variable)
    os.set_inheritable(job_ids, False)
    return DetachedDriver(Path(log), job_ids)


def _environment() -> dict[str, str]:
    """Return the driver's environment, so that it imports this Penstock and does not buffer its output."""
    root = str(import_root())
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}


# The states and metrics of a job's vertices, from its table `executions`.


def measured_texts(metrics: Metrics) -> Iterator[str]:
    """Yield a readable line for each metric. Names come from the author, and may contain any characters."""
    for operator, values in metrics.items():
        for name, value in values.items():
            text = f"{value:,}" if isinstance(value, int | float) else _distribution(value)
            yield f"{operator}: {name} {text}"


def _distribution(value: Any) -> str:
    if not isinstance(value, Mapping) or not value.get("count"):
        return str(value)
    mean = value["sum"] / value["count"]
    return f"{value['min']:,} to {value['max']:,}, mean {mean:,.4g} of {value['count']:,}"


_DECISIVE = ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING")
"""The state of a vertex is the first of these that one of its subtasks is in."""


_EXECUTION_COLUMNS = (
    *("vertex", "subtask", "attempt_number", "state", "host"),
    *("records_in", "records_out", "bytes_in", "bytes_out", "failure", "metrics"),
)
"""Columns read from `executions`; timestamps would need pandas, which is slow to import."""


@dataclass(frozen=True, kw_only=True)
class VertexState:
    """The state of a vertex; counts are sums over the latest attempt of each subtask."""

    vertex: int
    name: str
    parallelism: int
    state: str  #: ExecutionState
    subtasks: dict[str, int]  #: number of subtasks by ExecutionState
    attempts: int  #: number of attempts that ran
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    failures: tuple[str, ...]  #: failures of all attempts
    kept: bool  #: it did not run, because its output was saved by an earlier run
    metrics: dict[str, dict[str, Any]]  #: metrics of its functions, by operator and name


def vertex_states(record: JobRecord) -> list[VertexState]:
    """Return the vertices of a job in topological order. Raises InputError if its tables cannot be read.

    Source: org.apache.flink.runtime.executiongraph.ExecutionJobVertex.getAggregateJobVertexState.
    """
    table = record.table("executions")
    columns = [name for name in _EXECUTION_COLUMNS if name in table.column_names]
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
