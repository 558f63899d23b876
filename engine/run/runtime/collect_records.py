"""`execute_and_collect` without a limit: a job runs in a thread while its records are read one by one.

Source: org.apache.flink.streaming.api.operators.collect.{CollectResultIterator,CollectResultFetcher}.
"""

import atexit
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.engine.run.commits.earlier_runs import say
from penstock.engine.run.runtime.deliver_rows import ResultsToDriver, Rows, records, results_to_driver
from penstock.engine.run.runtime.errors import JobCancelledError, JobCompileError, LostResultsError
from penstock.engine.run.runtime.job import Job
from penstock.engine.run.runtime.job_result import JobResult
from penstock.engine.run.runtime.receive_results import READ_OF_ANOTHER_ATTEMPT, ResultReceiver
from penstock.engine.run.runtime.run_control import RunControl
from penstock.engine.run.runtime.run_job import BegunRun, begin_job, end_job
from penstock.engine.run.runtime.spark_application import driver_host
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.task.send_results import ATTEMPT_EDGE
from penstock.operators.task.task_spec import ResultsAddress

#: How long `close` waits for the job, which Spark ends as soon as it can.
_SECONDS_TO_END = 60.0


class CollectedRecords:
    """The records of a job's CollectSink, as an iterator; the job runs since it was made.

    What the job fails with is raised where the next record is asked for, and then it has none left. `close`
    cancels the job, as does losing it. Raises JobCompileError when it is made, if the job cannot run.
    """

    def __init__(self, job: Job, convert: Callable[[list[Any]], list[Any]]) -> None:
        self._convert = convert
        self._ready: list[Any] = []  # in reverse
        begun = begin_job(job, RunControl())
        assert not isinstance(begun, JobResult), "a job with a CollectSink is always run"
        self._run = _Run(begun)
        self._finalizer = weakref.finalize(self, self._run.lose)
        open_collects.add(self)
        try:
            self._run.start()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> "CollectedRecords":
        return self

    def __next__(self) -> Any:
        while not self._ready:
            if not self._finalizer.alive:
                raise StopIteration
            try:
                received = self._run.next_records()
            except BaseException as error:
                self.close()
                if isinstance(error, KeyboardInterrupt):
                    raise JobCancelledError(
                        f"job {self._run.name!r} was cancelled; nothing of it is committed"
                    ) from error
                raise
            if received is None:
                self.close()
            else:
                self._ready = self._convert(received)[::-1]
        return self._ready.pop()

    def close(self) -> None:
        """Cancel the job unless it has ended, and wait for its end; there are no further records."""
        self._ready = []
        open_collects.discard(self)
        if self._finalizer.detach() is not None:
            self._run.cancel()
            self._run.join()


#: Those that were neither read to their end nor closed.
open_collects: weakref.WeakSet[CollectedRecords] = weakref.WeakSet()


#: Those whose job has not ended. A thread that is still at work when the interpreter ends would abort it.
_running: "set[_Run]" = set()


class _Run:
    """The job of one CollectedRecords; knows nothing of it, so that it can be lost while the job runs."""

    def __init__(self, begun: BegunRun) -> None:
        self._begun, self.name = begun, begun.job.name
        results = results_to_driver(begun.compiled, batch=begun.job.batch)
        self._receiver = ResultReceiver(
            driver_host(begun.spark),
            results.subtasks,
            lambda edge, payload: records(payload, results.types[edge]),
        )
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._to_its_end, args=(results,), name=f"penstock-{self.name}", daemon=True
        )

    def start(self) -> None:
        """Start the job; raises JobCompileError where it cannot be sent to Spark."""
        _running.add(self)
        self._thread.start()
        self._begun.control.submitted.wait()
        if isinstance(self._error, JobCompileError):
            raise self._error

    def next_records(self) -> list[Any] | None:
        """Some records; None at the end. Raises what the job fails with."""
        records = self._receiver.next_records()
        if records:
            return records
        while self._thread.is_alive():
            self._receiver.pass_over()
        if self._error is not None:
            raise self._error
        return None

    def cancel(self) -> None:
        """Take nothing more, and cancel the job if it is still running."""
        self._receiver.close()
        if self._thread.is_alive():
            with suppress(Exception):  # Spark itself has ended
                self._begun.control.cancel()

    def lose(self) -> None:
        """Cancel the job because nobody can read its records any more."""
        if self._thread.is_alive() and len(self._begun.compiled.terminals) > 1:
            say(
                f"job {self.name!r} is cancelled, and its sinks get nothing: the records of its "
                "execute_and_collect were neither read to the end nor closed"
            )
        self.cancel()

    def join(self) -> None:
        """Wait for the end of the job."""
        self._thread.join(_SECONDS_TO_END)

    def _to_its_end(self, results: ResultsToDriver) -> None:
        host, port = self._receiver.address
        address = ResultsAddress(
            host=host,
            port=port,
            token=self._receiver.token,
            vertices=frozenset(vertex for vertex, _ in results.subtasks),
            edges=frozenset(results.types),
            here=results.here,
            attempts=any(needs_commit(terminal.sink) for terminal in self._begun.compiled.terminals),
        )
        try:
            end_job(self._begun, results=results, address=address, confirm=self._confirm)
            self._receiver.wake(all_sent=True)
        except BaseException as error:
            self._error = error
            self._receiver.wake(all_sent=False)
        finally:
            self._begun.control.submitted.set()
            _running.discard(self)

    def _confirm(self, rows: Rows) -> None:
        """LostResultsError if records were read of another attempt of a subtask than the sinks get."""
        attempts = {
            (vertex, subtask): payload.to_pybytes().decode()
            for edge, subtask, vertex, payload in rows
            if edge == ATTEMPT_EDGE
        }
        if not self._receiver.take_only(attempts):
            raise LostResultsError(
                f"job {self.name!r} failed: {READ_OF_ANOTHER_ATTEMPT}; its sinks get nothing"
            )


@contextmanager
def collects_closed_at_end() -> Iterator[None]:
    """Closes what a script has left open: cancels its jobs."""
    try:
        yield
    finally:
        _close_open_collects()


@atexit.register
def _close_open_collects() -> None:
    for collect in list(open_collects):
        collect.close()
    for run in list(_running):  # whose reader is lost
        run.join()
