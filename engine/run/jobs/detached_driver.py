"""`penstock run -d`: a driver that outlives the command, and how it says that its job is submitted."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from penstock.engine.machine.available_memory import import_root
from penstock.engine.machine.stop_on_signals import end_processes
from penstock.engine.run.jobs.job_records import jobs_folder
from penstock.plans.errors import MachineError

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
