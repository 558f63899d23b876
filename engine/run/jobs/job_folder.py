"""What a job's folder holds, and under which names."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from penstock.engine.machine.replace_file import make_durable, replace_file
from penstock.engine.machine.state_folder import state_folder
from penstock.operators.files.private_files import create_private_file

JOB, PLAN, RUNS, EXECUTIONS, CANCEL, LOG = (
    "job.json",
    "plan",
    "runs.arrow",
    "executions.arrow",
    "cancel",
    "log",
)

JOB_ID = re.compile("[0-9a-f]{32}")

FINAL_STATES = frozenset({"FINISHED", "FAILED", "CANCELED"})
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


def read_job(folder: Path) -> SubmittedJob:
    """What job.json says. OSError, ValueError or TypeError where there is none that Penstock wrote."""
    record: Any = json.loads((folder / JOB).read_text(encoding="utf-8"))
    if not isinstance(record, dict):
        raise ValueError(f"{folder / JOB} holds no object")
    known = {field.name for field in fields(SubmittedJob)}
    values = {name: value for name, value in record.items() if name in known}
    for name in ("arguments", "options", "kept_vertices"):
        values[name] = tuple(values.get(name, ()))
    return SubmittedJob(**values)


def read_table(path: Path) -> pa.Table:
    """An Arrow IPC file, in memory. OSError or pa.ArrowInvalid where it cannot be read."""
    with path.open("rb") as file:
        return pa.ipc.open_file(file.read()).read_all()


def remove_job_folder(folder: Path) -> None:
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
