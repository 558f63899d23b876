"""A job in the background.

Source: org.apache.flink.core.execution.JobClient.
"""

import threading

from engine.runtime.job import Job
from engine.runtime.job_result import JobResult
from engine.runtime.run_job import RunControl, run_job


class RunningJob:
    """A job that runs in a thread: what a JobClient queries."""

    def __init__(self, job: Job) -> None:
        self._job, self._control = job, RunControl()
        self._result: JobResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"penstock-{job.name}", daemon=True)

    def start(self) -> "RunningJob":
        """Begin."""
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
        self._control.cancel()

    def result(self) -> JobResult:
        """Wait for its end; raises what run_job raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        try:
            self._result = run_job(self._job, self._control)
        except BaseException as error:
            self._error = error
