"""A job in the background.

Source: org.apache.flink.core.execution.JobClient.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.engine.run.runtime.errors import JobCancelledError
from penstock.engine.run.runtime.job_monitor import JobResult
from penstock.engine.run.runtime.run_control import RunControl
from penstock.engine.run.runtime.run_job import run_job
from penstock.engine.run.runtime.transformations import Job


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
