"""Run many asynchronous calls at once, with results in order or as calls complete.

Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Thread
from typing import Any, Protocol

from penstock.operators.chain.operator import MAX_WATERMARK, Results, Timestamps, Values
from penstock.operators.functions.async_functions import AsyncFunction, AsyncRetryStrategy
from penstock.operators.records.map_records import FunctionOperator

# Queues of records whose calls are running, and of the watermarks between them
#
# Only the task's thread touches these queues.
#
# Source: org.apache.flink.streaming.api.operators.async.queue.{OrderedStreamElementQueue,
# UnorderedStreamElementQueue}.


class WaitingRecord:
    """A record whose call is running; later, with its results or its error."""

    __slots__ = ("complete", "error", "group", "resolved", "results", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value, self.timestamp = value, timestamp
        self.results: Any = None
        self.error: BaseException | None = None
        self.resolved = False  #: set in the event loop: the results or the error are known
        self.complete = False  #: set in the task's thread: it may leave
        self.group: _Group | None = None


class WaitingRecords(Protocol):
    """A queue of records and watermarks."""

    size: int  #: records that have not left

    def add(self, record: WaitingRecord) -> None:
        """Queue a record whose call has begun."""

    def add_watermark(self, watermark: int) -> None:
        """Queue a watermark after the records so far."""

    def complete(self, record: WaitingRecord) -> None:
        """Mark that the record has its results."""

    def leave(self) -> Iterator[WaitingRecord | int]:
        """Remove and yield the records and watermarks that may leave."""


class OrderedRecords:
    """Everything leaves in its order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingRecord | int] = deque()
        self.size = 0

    def add(self, record: WaitingRecord) -> None:
        self._waiting.append(record)
        self.size += 1

    def add_watermark(self, watermark: int) -> None:
        self._waiting.append(watermark)

    def complete(self, record: WaitingRecord) -> None:
        record.complete = True

    def leave(self) -> Iterator[WaitingRecord | int]:
        """Yield complete records and watermarks, up to the first record that is not complete."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, WaitingRecord):
                if not first.complete:
                    return
                self.size -= 1
            yield waiting.popleft()


class _Group:
    """Records between two watermarks."""

    __slots__ = ("complete", "pending", "watermark")

    def __init__(self) -> None:
        self.pending = 0
        self.complete: deque[WaitingRecord] = deque()
        self.watermark: int | None = None  #: the watermark after the records


class UnorderedRecords:
    """Records leave once they are complete, but none overtakes a watermark."""

    def __init__(self) -> None:
        self._groups: deque[_Group] = deque([_Group()])
        self.size = 0

    def add(self, record: WaitingRecord) -> None:
        """Queue a record after the last watermark."""
        group = self._groups[-1]
        group.pending += 1
        record.group = group
        self.size += 1

    def add_watermark(self, watermark: int) -> None:
        """Close the last group."""
        self._groups[-1].watermark = watermark
        self._groups.append(_Group())

    def complete(self, record: WaitingRecord) -> None:
        """Let the record leave with its group."""
        assert record.group is not None
        record.group.pending -= 1
        record.group.complete.append(record)

    def leave(self) -> Iterator[WaitingRecord | int]:
        """Yield complete records of the first group, and of later ones if nothing before them is pending."""
        while True:
            group = self._groups[0]
            while group.complete:
                self.size -= 1
                yield group.complete.popleft()
            if group.pending or group.watermark is None:
                return
            yield group.watermark
            self._groups.popleft()


class AsyncWaitOperator(FunctionOperator):
    """Runs an AsyncFunction.

    At most `capacity` records wait, for their calls or (in order) for earlier records; more block the input.
    Watermarks retain their place among the records. At the end of input the operator waits for all calls. A
    timeout of zero or less means none. Raises ValueError if `capacity` is not above zero.
    """

    def __init__(
        self,
        function: AsyncFunction[Any, Any],
        timeout_milliseconds: int,
        capacity: int,
        ordered: bool,
        retry_strategy: AsyncRetryStrategy[Any],
    ) -> None:
        super().__init__(function)
        if capacity <= 0:
            raise ValueError(f"The capacity must be larger than 0, not {capacity}.")
        self.timeout_milliseconds = timeout_milliseconds
        self.capacity = capacity
        self.ordered = ordered
        self.retry_strategy = retry_strategy

    def open(self) -> None:
        """Open the function and start the event loop."""
        super().open()
        timeout = self.timeout_milliseconds / 1000 if self.timeout_milliseconds > 0 else None
        self._attempts = Attempts(self.function, timeout, self.retry_strategy, self._finished)
        self._waiting: WaitingRecords = OrderedRecords() if self.ordered else UnorderedRecords()
        self._results = Results(self.output)
        self._complete: deque[WaitingRecord] = deque()
        self._changed = Condition()
        self._loop = EventLoop(f"{self.context.operator_name} {self.context.subtask}")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Start the calls for all records, as capacity permits; emit complete ones."""
        stamps = timestamps or [None] * len(values)
        begun = 0
        while begun < len(values):
            free = self.capacity - self._waiting.size
            if free <= 0:
                self._await_some()
                continue
            records = [
                WaitingRecord(value, stamp)
                for value, stamp in zip(
                    values[begun : begun + free], stamps[begun : begun + free], strict=True
                )
            ]
            for record in records:
                self._waiting.add(record)
            self._loop.call(self._attempts.begin, records)
            begun += len(records)
        self._emit()

    def process_watermark(self, watermark: int) -> None:
        """Queue the watermark after the records so far; at the last one, wait for all of them."""
        self._waiting.add_watermark(watermark)
        if watermark == MAX_WATERMARK:
            self._drain()
        self._emit()

    def finish(self) -> None:
        self._drain()

    def close(self) -> None:
        """Stop the event loop and close the function."""
        if hasattr(self, "_loop"):
            self._loop.stop()
        super().close()

    def _finished(self, record: WaitingRecord) -> None:
        """Queue a record with results; called in the event loop."""
        with self._changed:
            self._complete.append(record)
            self._changed.notify()

    def _drain(self) -> None:
        while self._waiting.size:
            self._await_some()

    def _await_some(self) -> None:
        with self._changed:
            while not self._complete:
                self._changed.wait()
        self._emit()

    def _emit(self) -> None:
        waiting, results, complete = self._waiting, self._results, self._complete
        while complete:
            record = complete.popleft()
            if record.error is not None:
                raise self.failed(record.error, record.value) from record.error
            waiting.complete(record)
        for entry in waiting.leave():
            if isinstance(entry, WaitingRecord):
                results.add(entry.results, entry.timestamp)
            else:
                results.flush()
                self.output.watermark(entry)
        results.flush()


# An asyncio event loop in its own thread


class EventLoop:
    """Runs callbacks and tasks until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Schedule a call of `function` in the loop."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """Cancel running tasks and wait for the thread to end."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            unfinished = asyncio.all_tasks(self._loop)
            for task in unfinished:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*unfinished, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


# The calls for one record: attempts, waits between them, and the time limit, all in the event loop
#
# Source: pyflink.fn_execution.datastream.process.async_function.operation;
# org.apache.flink.streaming.api.operators.async.AsyncWaitOperator.


class Attempts:
    """Makes the calls for the records of one subtask, and calls `finished` once with each record.

    The time limit (seconds; None: no limit) covers all attempts of a record together. When it expires, the
    function's `timeout` is called instead; a running call goes on, but its result is dropped.
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
            # the loop itself only has weak references
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
            while not record.resolved:
                attempts += 1
                results, error = None, None
                try:
                    results = await self._function.async_invoke(record.value)
                except Exception as raised:
                    error = raised
                late = deadline is not None and loop.time() > deadline
                if late or not (self._wants_retry(results, error) and self._strategy.can_retry(attempts)):
                    break
                await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
        except BaseException as raised:
            # a predicate or strategy failed, or a call was cancelled
            error = raised
        finally:
            if limit is not None:
                limit.cancel()
        self._finish(record, results, error)

    def _wants_retry(self, results: Any, error: BaseException | None) -> bool:
        if error is None:
            wanted = self._retry_result
            return wanted is not None and results is not None and bool(wanted(results))
        return (
            self._retry_exception is not None
            and isinstance(error, Exception)
            and bool(self._retry_exception(error))
        )

    def _time_out(self, record: WaitingRecord) -> None:
        if record.resolved:
            return
        try:
            results = self._function.timeout(record.value)
        except BaseException as error:  # the loop would print it, and go on
            self._finish(record, None, error)
        else:
            self._finish(record, results, None)

    def _finish(self, record: WaitingRecord, results: Any, error: BaseException | None) -> None:
        if record.resolved:
            return
        record.resolved = True
        if error is None and not isinstance(results, Iterable):
            wrong = "cannot be none" if results is None else "should be of list type"
            error = RuntimeError(
                f"The result of AsyncFunction {wrong}, please check the methods 'async_invoke' and 'timeout' "
                f"of class '{type(self._function)}'."
            )
        record.results = results
        if isinstance(error, asyncio.CancelledError):
            error = RuntimeError(f"the call was cancelled: {error!r}")
        record.error = error
        self._finished(record)
