"""List the jobs of `penstock run` while they run and after, and cancel a job when a user requests it."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from penstock.engine.machine.folders import this_process
from penstock.engine.output.print_line import print_message
from penstock.engine.output.redaction import redact
from penstock.engine.run.lowering.transformations import Job
from penstock.engine.run.runtime.job_monitor import JobResult, RunControl, tables_of_run
from penstock.engine.run.runtime.job_records import (
    CANCEL,
    JOB,
    LOG,
    DetachedDriver,
    SubmittedJob,
    make_job_folder,
    remove_old_jobs,
    write_state,
)
from penstock.engine.run.runtime.receive_results import collects_end_with_script
from penstock.engine.run.runtime.recover_jobs import finished_vertices, recovery_ends_with_script
from penstock.engine.run.runtime.run_context import RunContext, use_context
from penstock.engine.run.runtime.run_job import acknowledge_runs, run_job
from penstock.plans.errors import JobCancelledError, PenstockError

# A job that runs in the background.
#
# Source: org.apache.flink.core.execution.JobClient.


class RunningJob:
    """A job that runs in a thread, for a JobClient."""

    def __init__(self, job: Job, context: RunContext) -> None:
        self._job, self._context, self._control = job, context, RunControl()
        self._result: JobResult | None = None
        self._error: BaseException | None = None
        self._has_reported = self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"penstock-{job.name}", daemon=True)

    def start(self) -> "RunningJob":
        """Start the thread."""
        self._context.running.add(self)
        self._thread.start()
        return self

    @property
    def job_id(self) -> str:
        """The JobID: 32 hex digits."""
        return self._control.job_id

    def status(self) -> str:
        """Return the name of its JobStatus."""
        return self._control.state

    def cancel(self) -> None:
        """Request its cancellation."""
        self._is_cancelled = True
        self._control.cancel()

    def result(self) -> JobResult:
        """Wait for its end, and return its result; raises the error that run_job raised."""
        self._thread.join()
        self._has_reported = True
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        try:
            self._result = run_job(self._job, self._context, self._control)
        except BaseException as error:
            self._error = error
            self._context.failed.append(self)
        finally:
            self._context.running.discard(self)

    def raise_unreported(self) -> None:
        """Wait for its end; raise its error, unless `result` has raised it, or it was cancelled here."""
        self._thread.join()
        knows = self._has_reported or (self._is_cancelled and isinstance(self._error, JobCancelledError))
        if self._error is not None and not knows:
            raise self._error

    def join(self, seconds: float) -> None:
        """Wait for its end, up to `seconds`."""
        self._thread.join(seconds)


_SECONDS_TO_END = 60.0


@contextmanager
def _jobs_end_with_script(context: RunContext) -> Iterator[None]:
    """Wait at the end of the block for jobs that a script has left running, and raise their errors.

    The errors of jobs that had failed before are raised too, if the script has not called their `result`.
    If the script raises, or the wait is interrupted, running jobs are cancelled.
    """
    try:
        try:
            yield
        except SystemExit as ended:
            if ended.code:
                raise
            _wait_for_all(context)
            raise
        _wait_for_all(context)
    except BaseException:
        running = list(context.running)
        for job in running:
            with suppress(Exception):  # Spark itself has ended
                job.cancel()
        for job in running:
            job.join(_SECONDS_TO_END)
        raise
    finally:
        context.failed.clear()


def _wait_for_all(context: RunContext) -> None:
    running = list(context.running)  # before those that failed: a job that fails now is in one of them
    for job in [*context.failed, *running]:
        job.raise_unreported()


@contextmanager
def running_script(context: RunContext) -> Iterator[None]:
    """Run a script inside the block: its jobs are those of `context`, and have ended when the block ends.

    Errors of jobs that the script has left running are raised, iterators that it has left open are closed,
    the journal of its last run is removed, and so are the data sets that `context.recovery` has saved, unless
    the script fails.
    """
    context.is_script = True
    with (
        use_context(context),
        recovery_ends_with_script(context.recovery),
        _last_run_acknowledged(context),
        collects_end_with_script(context),
        _jobs_end_with_script(context),
    ):
        yield


@contextmanager
def _last_run_acknowledged(context: RunContext) -> Iterator[None]:
    try:
        yield
    finally:
        acknowledge_runs(context)


_LOOK_SECONDS = 0.5
_WRITE_SECONDS = 1.0
_SIGN_OF_LIFE_SECONDS = 60.0
_LARGEST_SHARE = 0.05
"""At most this share of the time is spent on writing the state of a job, also for a large one."""


@contextmanager
def list_jobs_of_script(
    context: RunContext, script: SubmittedJob, driver: DetachedDriver | None = None
) -> Iterator[None]:
    """Inside the block, every job has a folder (`job_records`): `script` with the job's id and name.

    `driver`: set if this process is a detached driver; the id of each submitted job is sent to the process
    that started it. A folder that cannot be written is reported once, and does not stop a job.
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
                () if recovered is None else sorted(finished_vertices(recovered.saved, result.compiled))
            ),
        )
        try:
            with suppress(PenstockError, OSError):
                remove_old_jobs()
            folder = make_job_folder(job, result.tables, tables_of_run(result), log)
            if log is not None:
                log = folder / LOG  # the file that the driver began with is no longer used
            listed_job = _ListedJob(folder, result, control)
            listed.append(listed_job)
            control.on_end.append(listed_job.end)
            listed_job.start()
        except OSError as error:
            _print_once(error)
        if driver is not None:
            with suppress(OSError):  # the process that started this driver has ended
                os.write(driver.job_ids, f"{result.job_id}\n".encode())
            with suppress(OSError):
                driver.log.unlink()

    context.submit_listeners.append(submitted)
    try:
        yield
    finally:
        context.submit_listeners.remove(submitted)
        for listed_job in listed:
            listed_job.give_up()


class _ListedJob:
    """Writes the state of a job, and looks for a request to cancel it, on a thread of its own."""

    def __init__(self, folder: Path, result: JobResult, control: RunControl) -> None:
        self._folder, self._result, self._control = folder, result, control
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="penstock-listed-job", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, result: JobResult) -> None:
        """Write the end of the job into its folder; it is there when this returns."""
        self.give_up()
        self._write(result)

    def give_up(self) -> None:
        """Stop the thread, which then writes nothing more."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        written: object = None
        next_write = next_sign = time.monotonic()
        while not self._over.wait(_LOOK_SECONDS):
            try:
                requested = (self._folder / CANCEL).exists()
                if requested and not self._control.cancel_requested.is_set():
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
            except FileNotFoundError:  # the folder was removed
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
            write_state(self._folder, {"runs": tables["runs"]})  # last: a final state covers executions
        except (OSError, PenstockError) as error:
            if self._folder.exists():
                _print_once(error)


_printed: list[None] = []


def _print_once(error: Exception) -> None:
    if not _printed:
        _printed.append(None)
        print_message(f"this job is not listed, or its state is not updated: {error}")
