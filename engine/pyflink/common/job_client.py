"""A handle to a running job. Source: pyflink.common.job_client."""

from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from enum import Enum
from threading import Thread
from typing import Any, NoReturn, Protocol

# Results that are available later. Source: pyflink.common.completable_future.


class CompletableFuture:
    """A result that is available later.

    Args:
        future: The concurrent.futures.Future of the result.
        py_class: A function that converts the result; default: none.
    """

    def __init__(self, future: "Future[Any]", py_class: Callable[[Any], Any] | None = None) -> None:
        self._future = future
        self._py_class = py_class

    def cancel(self) -> bool:
        """Stop waiting for the result; work that has begun continues.

        Returns:
            bool: Whether the future is cancelled.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Tell whether the future was cancelled before its result was available."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Tell whether the result is available, or the future failed or was cancelled."""
        return self._future.done()

    def result(self) -> Any:
        """Wait for the result and return it; raises the error if it failed."""
        result = self._future.result()
        return result if self._py_class is None else self._py_class(result)

    def exception(self) -> BaseException | None:
        """Return the exception that the future failed with, or None."""
        if not self._future.done():
            return None
        return CancelledError() if self._future.cancelled() else self._future.exception()

    def __str__(self) -> str:
        state = "Not completed"
        if self.done():
            state = "Completed normally" if self.exception() is None else "Completed exceptionally"
        return f"CompletableFuture[{state}]"


# Ids of jobs. Source: pyflink.common.job_id.


class JobID:
    """Id of a job.

    Args:
        job_id: 32 hex digits.
    """

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._job_id == other._job_id

    def __hash__(self) -> int:
        return hash(self._job_id)

    def __str__(self) -> str:
        return self._job_id


# The result of a finished job. Source: pyflink.common.job_execution_result.


class JobExecutionResult:
    """Id, runtime and metrics of a job that has ended.

    Args:
        job_id: 32 hex digits.
        net_runtime: Milliseconds.
        accumulators: Values of accumulators by name; default: none.
    """

    def __init__(self, job_id: str, net_runtime: int, accumulators: Mapping[str, Any] | None = None) -> None:
        self._job_id = JobID(job_id)
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return the job's runtime in milliseconds."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of an accumulator.

        Args:
            accumulator_name: Its name.

        Returns:
            The value; None if there is none of this name.
        """
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the values of all accumulators, by name."""
        return dict(self._accumulators)

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime} ms",
        ]
        if self._accumulators:
            lines += ["Accumulator Results: ", *map(_accumulator_line, self._accumulators.items()), ""]
        return "\n".join(lines) + "\n"


def _accumulator_line(entry: tuple[str, Any]) -> str:
    name, value = entry
    text = f" [{len(value)} elements]" if isinstance(value, (list, tuple, set)) else f": {value}"
    return f"- {name} ({type(value).__name__}){text}"


# States of a job. Source: pyflink.common.job_status; org.apache.flink.api.common.JobStatus.


class JobStatus(Enum):
    """State of a job."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Tell whether the job has ended and cannot be recovered."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Tell whether the job has ended, or was suspended."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


class JobSummary(Protocol):
    """The result of a finished job."""

    @property
    def job_id(self) -> str:
        """Id of the job."""

    @property
    def milliseconds(self) -> int:
        """Milliseconds that it ran."""


class JobHandle(Protocol):
    """A running job."""

    @property
    def job_id(self) -> str:
        """Id of the job."""

    def status(self) -> str:
        """Name of its JobStatus."""

    def cancel(self) -> None:
        """Request its cancellation."""

    def result(self) -> JobSummary:
        """Wait for its end, and return its result; raises its error."""


class JobClient:
    """Queries one job, and cancels it."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return JobID(self._handle.job_id)

    def get_job_status(self) -> CompletableFuture:
        """Return the job's state.

        Returns:
            CompletableFuture: Of a JobStatus.
        """
        return CompletableFuture(_now(self._handle.status), JobStatus.__getitem__)

    def cancel(self) -> CompletableFuture:
        """Ask the job to stop.

        Returns:
            CompletableFuture: Done when it was asked.
        """
        return CompletableFuture(_now(self._handle.cancel))

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> NoReturn:
        """Refuse to stop the job with a savepoint: jobs here take none.

        Args:
            advance_to_end_of_event_time: Not read.
            savepoint_directory: Not read.

        Raises:
            NotImplementedError: Always; `cancel` stops the job.
        """
        raise NotImplementedError("JobClient.stop_with_savepoint: Penstock's jobs take no savepoints")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> NoReturn:
        """Refuse to take a savepoint: jobs here take none.

        Args:
            savepoint_directory: Not read.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("JobClient.trigger_savepoint: Penstock's jobs take no savepoints")

    def get_accumulators(self) -> CompletableFuture:
        """Return the values of accumulators.

        Returns:
            CompletableFuture: Of a dict, which is empty: Python functions make none.
        """
        return CompletableFuture(_now(dict))

    def get_job_execution_result(self) -> CompletableFuture:
        """Return the result of the job.

        Returns:
            CompletableFuture: Of a JobExecutionResult, when the job has ended; it fails as the job does.
        """
        return CompletableFuture(_later(self._handle.result), _execution_result)


def _execution_result(summary: JobSummary) -> JobExecutionResult:
    return JobExecutionResult(summary.job_id, summary.milliseconds)


def _now(call: Callable[[], Any]) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    _complete(future, call)
    return future


def _later(call: Callable[[], Any]) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    Thread(target=_complete, args=(future, call), name="penstock-job-result", daemon=True).start()
    return future


def _complete(future: "Future[Any]", call: Callable[[], Any]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
