"""Jobs of `penstock run` are listed while they run and after, and cancelled when somebody asks for it."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from penstock.engine.machine.state_folder import this_process
from penstock.engine.output.redaction import redact
from penstock.engine.run.commits.commit_run import print_message
from penstock.engine.run.job_records import (
    CANCEL,
    JOB,
    LOG,
    DetachedDriver,
    SubmittedJob,
    make_job_folder,
    remove_old_jobs,
    write_state,
)
from penstock.engine.run.runtime.errors import JobCancelledError
from penstock.engine.run.runtime.job_monitor import JobResult, tables_of_run
from penstock.engine.run.runtime.recover_jobs import finished_vertices
from penstock.engine.run.runtime.run_control import RunControl, submit_listeners
from penstock.engine.run.runtime.run_job import run_job
from penstock.engine.run.runtime.transformations import Job
from penstock.plans.errors import PenstockError

# A job in the background.
#
# Source: org.apache.flink.core.execution.JobClient.


class RunningJob:
    """A job that runs in a thread: what a JobClient queries."""

    def __init__(self, job: Job) -> None:
        self._job, self._control = job, RunControl()
        self._result: JobResult | None = None
        self._error: BaseException | None = None
        self._is_told = self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-{job.name}", daemon=True)

    def start(self) -> "RunningJob":
        """Begin."""
        _running.add(self)
        self._thread.start()
        return self

    @property
    def job_id(self) -> str:
        """The JobID: 32 hex digits."""
        return self._control.job_id

    def status(self) -> str:
        """A JobStatus by name."""
        return self._control.state

    def cancel(self) -> None:
        """Ask it to stop."""
        self._is_cancelled = True
        self._control.cancel()

    def result(self) -> JobResult:
        """Wait for its end; raises what run_job raised."""
        self._thread.join()
        self._is_told = True
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        try:
            self._result = run_job(self._job, self._control)
        except BaseException as error:
            self._error = error
            _failed.append(self)
        finally:
            _running.discard(self)

    def raise_untold(self) -> None:
        """Wait for its end; raise what it failed with, unless `result` has, or it was cancelled here."""
        self._thread.join()
        knows = self._is_told or (self._is_cancelled and isinstance(self._error, JobCancelledError))
        if self._error is not None and not knows:
            raise self._error

    def join(self, seconds: float) -> None:
        """Wait for its end, for so long at most."""
        self._thread.join(seconds)


#: Those that have not ended.
_running: set[RunningJob] = set()

#: Those that have failed.
_failed: list[RunningJob] = []

_SECONDS_TO_END = 60.0


@contextmanager
def jobs_end_with_script() -> Iterator[None]:
    """Wait at the end for jobs that a script has left running, and raise what they fail with.

    So is what those failed with that had ended before, and whose result nobody asked for.
    Where the script raises, or this is interrupted, they are cancelled.
    """
    try:
        try:
            yield
        except SystemExit as ended:
            if ended.code:
                raise
            _wait_for_all()
            raise
        _wait_for_all()
    except BaseException:
        running = list(_running)
        for job in running:
            with suppress(Exception):  # Spark itself has ended
                job.cancel()
        for job in running:
            job.join(_SECONDS_TO_END)
        raise
    finally:
        _failed.clear()


def _wait_for_all() -> None:
    running = list(_running)  # before those that failed: a job that fails now is in one of them
    for job in [*_failed, *running]:
        job.raise_untold()


_LOOK_SECONDS = 0.5
_WRITE_SECONDS = 1.0
_SIGN_OF_LIFE_SECONDS = 60.0
_LARGEST_SHARE = 0.05
"""At most this share of the time goes into writing how a job does, however large it is."""


@contextmanager
def list_jobs_of_script(script: SubmittedJob, driver: DetachedDriver | None = None) -> Iterator[None]:
    """Inside, every job that runs has a folder (engine.jobs), as `script` with its own id and name.

    `driver`: what this process is, if it is a detached driver; who started it is told the id of each job
    once it is submitted. A folder that cannot be written is said once, and stops no job.
    """
    listed: list[_ListedJob] = []
    log = None if driver is None else driver.log

    def submitted(result: JobResult, control: RunControl) -> None:
        nonlocal log
        recovered = control.recovered
        job = replace(
            script,
            job_id=result.job_id,
            name=redact(result.name),
            runtime_mode="BATCH" if result.batch else "STREAMING",
            started_at=result.started_at,
            owner=this_process(),
            detached=driver is not None,
            kept_in=None if recovered is None else recovered.script.folder,
            resumed=None if recovered is None else recovered.resumed,
            kept_vertices=tuple(
                () if recovered is None else sorted(finished_vertices(recovered.kept, result.compiled))
            ),
        )
        try:
            with suppress(PenstockError, OSError):
                remove_old_jobs()
            folder = make_job_folder(job, result.tables, tables_of_run(result), log)
            if log is not None:
                log = folder / LOG  # the file that the driver began with has had its time
            listed_job = _ListedJob(folder, result, control)
            listed.append(listed_job)
            control.on_end.append(listed_job.end)
            listed_job.start()
        except OSError as error:
            _print_once(error)
        if driver is not None:
            with suppress(OSError):  # who started this driver has ended
                os.write(driver.told, f"{result.job_id}\n".encode())
            with suppress(OSError):
                driver.log.unlink()

    submit_listeners.append(submitted)
    try:
        yield
    finally:
        submit_listeners.remove(submitted)
        for listed_job in listed:
            listed_job.give_up()


class _ListedJob:
    """Writes how a job goes, and looks whether it is to be cancelled, on a thread of its own."""

    def __init__(self, folder: Path, result: JobResult, control: RunControl) -> None:
        self._folder, self._result, self._control = folder, result, control
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="penstock-listed-job", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self, result: JobResult) -> None:
        """The job has ended; when this returns, its folder says so."""
        self.give_up()
        self._write(result)

    def give_up(self) -> None:
        """Write nothing more."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        written: object = None
        next_write = next_sign = time.monotonic()
        while not self._over.wait(_LOOK_SECONDS):
            try:
                asked = (self._folder / CANCEL).exists()
                if asked and not self._control.cancel_requested.is_set():
                    self._control.cancel()
                began = time.monotonic()
                if began >= next_sign:
                    os.utime(self._folder / JOB)
                    next_sign = began + _SIGN_OF_LIFE_SECONDS
                if began < next_write:
                    continue
                now = self._now()
                known = (
                    now.state,
                    [(attempt.state, attempt.records_in, attempt.records_out) for attempt in now.attempts],
                )
                if known != written:
                    self._write(now)
                    written = known
                    took = time.monotonic() - began
                    next_write = began + max(_WRITE_SECONDS, took / _LARGEST_SHARE)
            except FileNotFoundError:  # somebody has removed the folder
                return
            except Exception as error:
                print_message(f"job {self._result.name!r}: {error}")

    def _now(self) -> JobResult:
        control, monitor = self._control, self._control.monitor
        state = control.state
        if state == "RUNNING" and control.cancel_requested.is_set():
            state = "CANCELLING"
        return replace(
            self._result,
            state=state,
            attempts=[] if monitor is None else monitor.snapshot(),
            milliseconds=int(time.time() * 1000) - self._result.started_at,
        )

    def _write(self, result: JobResult) -> None:
        try:
            tables = tables_of_run(result)
            write_state(self._folder, {"executions": tables["executions"]})
            write_state(self._folder, {"runs": tables["runs"]})  # last: what it says is final is so
        except (OSError, PenstockError) as error:
            if self._folder.exists():
                _print_once(error)


_said: list[None] = []


def _print_once(error: Exception) -> None:
    if not _said:
        _said.append(None)
        print_message(f"this job is not listed, or not as it goes: {error}")
