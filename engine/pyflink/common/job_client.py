"""A handle to a running job. Source: pyflink.common.job_client."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, NoReturn, Protocol

from penstock.engine.pyflink.common.completable_future import CompletableFuture
from penstock.engine.pyflink.common.job_execution_result import JobExecutionResult
from penstock.engine.pyflink.common.job_id import JobID
from penstock.engine.pyflink.common.job_status import JobStatus


class JobSummary(Protocol):
    """The result of a finished job."""

    @property
    def job_id(self) -> str:
        """Id of the job."""

    @property
    def milliseconds(self) -> int:
        """How long it ran."""


class JobHandle(Protocol):
    """A running job."""

    @property
    def job_id(self) -> str:
        """Id of the job."""

    def status(self) -> str:
        """Name of its JobStatus."""

    def cancel(self) -> None:
        """Ask it to stop."""

    def result(self) -> JobSummary:
        """Wait for its end; raises what it failed with."""


class JobClient:
    """Queries one job, and cancels it."""

    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return JobID(self._handle.job_id)

    def get_job_status(self) -> CompletableFuture:
        """Its JobStatus."""
        return CompletableFuture(_now(self._handle.status), JobStatus.__getitem__)

    def cancel(self) -> CompletableFuture:
        """Ask the job to stop."""
        return CompletableFuture(_now(self._handle.cancel))

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> NoReturn:
        """NotImplementedError: there are no savepoints."""
        raise NotImplementedError("JobClient.stop_with_savepoint: Penstock's jobs take no savepoints")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> NoReturn:
        """NotImplementedError: there are no savepoints."""
        raise NotImplementedError("JobClient.trigger_savepoint: Penstock's jobs take no savepoints")

    def get_accumulators(self) -> CompletableFuture:
        """The values of accumulators by name: none, for Python functions cannot make any."""
        return CompletableFuture(_now(dict))

    def get_job_execution_result(self) -> CompletableFuture:
        """The JobExecutionResult, once the job has ended; fails as the job does."""
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
