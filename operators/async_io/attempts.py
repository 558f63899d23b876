"""The calls for one record: attempts, waits between them, and the time limit. All of it in the event loop.

Source: pyflink.fn_execution.datastream.process.async_function.operation;
org.apache.flink.streaming.api.operators.async.AsyncWaitOperator.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from penstock.operators.async_io.waiting_records import WaitingRecord
from penstock.operators.functions.async_retry_strategies import AsyncRetryStrategy


class Attempts:
    """Makes the calls for the records of one subtask, and tells `finished` of each record once.

    The time limit (seconds; None: no limit) covers all attempts of a record together. When it is over, the
    function's `timeout` is called instead; a call under way goes on, but its result is dropped.
    """

    def __init__(
        self,
        function: Any,
        timeout: float | None,
        strategy: AsyncRetryStrategy[Any],
        finished: Callable[[WaitingRecord], None],
    ) -> None:
        self._function, self._timeout, self._strategy, self._finished = function, timeout, strategy, finished
        predicate = strategy.get_retry_predicate()
        self._retry_result = predicate.result_predicate()
        self._retry_exception = predicate.exception_predicate()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, records: Iterable[WaitingRecord]) -> None:
        """Start the calls for these records."""
        loop = asyncio.get_running_loop()
        for record in records:
            task = loop.create_task(self._call(record))
            # The loop itself only keeps weak references.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _call(self, record: WaitingRecord) -> None:
        loop = asyncio.get_running_loop()
        limit = None if self._timeout is None else loop.call_later(self._timeout, self._time_out, record)
        deadline = None if self._timeout is None else loop.time() + self._timeout
        results: Any = None
        error: BaseException | None = None
        try:
            attempts = 0
            while not record.settled:
                attempts += 1
                results, error = None, None
                try:
                    results = await self._function.async_invoke(record.value)
                except Exception as raised:
                    error = raised
                late = deadline is not None and loop.time() > deadline
                if late or not (self._again(results, error) and self._strategy.can_retry(attempts)):
                    break
                await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
        except BaseException as raised:
            # A predicate or strategy that fails, or a call that was cancelled.
            error = raised
        finally:
            if limit is not None:
                limit.cancel()
        self._finish(record, results, error)

    def _again(self, results: Any, error: BaseException | None) -> bool:
        if error is None:
            wanted = self._retry_result
            return wanted is not None and results is not None and bool(wanted(results))
        return (
            self._retry_exception is not None
            and isinstance(error, Exception)
            and bool(self._retry_exception(error))
        )

    def _time_out(self, record: WaitingRecord) -> None:
        if record.settled:
            return
        try:
            results = self._function.timeout(record.value)
        except Exception as error:
            self._finish(record, None, error)
        else:
            self._finish(record, results, None)

    def _finish(self, record: WaitingRecord, results: Any, error: BaseException | None) -> None:
        if record.settled:
            return
        record.settled = True
        if error is None and not isinstance(results, Iterable):
            wrong = "cannot be none" if results is None else "should be of list type"
            error = RuntimeError(
                f"The result of AsyncFunction {wrong}, please check the methods 'async_invoke' and 'timeout' "
                f"of class '{type(self._function)}'."
            )
        record.results = results
        if error is not None and not isinstance(error, Exception):
            error = RuntimeError(f"the call was cancelled: {error!r}")
        record.error = error
        self._finished(record)
