"""Asynchronous functions: many records under way at once, results in order or as they come.

Source: org.apache.flink.streaming.api.operators.async.AsyncWaitOperator.
"""

from collections import deque
from threading import Condition
from typing import Any

from penstock.operators.async_io.attempts import Attempts
from penstock.operators.async_io.event_loop import EventLoop
from penstock.operators.async_io.waiting_records import (
    RecordsAsTheyCome,
    RecordsInOrder,
    WaitingRecord,
    WaitingRecords,
)
from penstock.operators.chain.operator import MAX_WATERMARK, Timestamps, Values
from penstock.operators.chain.results import Results
from penstock.operators.functions.async_functions import AsyncFunction
from penstock.operators.functions.async_retry_strategies import AsyncRetryStrategy
from penstock.operators.records.user_function import FunctionOperator


class AsyncWaitOperator(FunctionOperator):
    """An AsyncFunction.

    At most `capacity` records wait, for their calls or (in order) for earlier records; more block the input.
    Watermarks keep their place among the records. At the end of input all calls are waited for. A timeout of
    zero or less means none. Raises ValueError: a capacity that is not more than zero.
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
        """Open the function, start the event loop."""
        super().open()
        timeout = self.timeout_milliseconds / 1000 if self.timeout_milliseconds > 0 else None
        self._attempts = Attempts(self.function, timeout, self.retry_strategy, self._finished)
        self._waiting: WaitingRecords = RecordsInOrder() if self.ordered else RecordsAsTheyCome()
        self._results = Results(self.output)
        self._complete: deque[WaitingRecord] = deque()
        self._changed = Condition()
        self._loop = EventLoop(f"{self.context.operator_name} {self.context.subtask}")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Begin the calls for all records, as capacity permits; put out what has become complete."""
        stamps = timestamps or [None] * len(values)
        begun = 0
        while begun < len(values):
            free = self.capacity - self._waiting.size
            if free <= 0:
                self._await_some()
                continue
            some = [
                WaitingRecord(value, stamp)
                for value, stamp in zip(
                    values[begun : begun + free], stamps[begun : begun + free], strict=True
                )
            ]
            for record in some:
                self._waiting.add(record)
            self._loop.call(self._attempts.begin, some)
            begun += len(some)
        self._put_out()

    def process_watermark(self, watermark: int) -> None:
        """Queue the watermark after the records so far; at the last one wait for all of them."""
        self._waiting.add_watermark(watermark)
        if watermark == MAX_WATERMARK:
            self._drain()
        self._put_out()

    def finish(self) -> None:
        """Wait for all calls."""
        self._drain()

    def close(self) -> None:
        """Stop the event loop, close the function."""
        if hasattr(self, "_loop"):
            self._loop.stop()
        super().close()

    def _finished(self, record: WaitingRecord) -> None:
        """Called in the event loop."""
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
        self._put_out()

    def _put_out(self) -> None:
        waiting, results, complete = self._waiting, self._results, self._complete
        while complete:
            record = complete.popleft()
            if record.error is not None:
                raise self.failed(record.error, record.value) from record.error
            waiting.complete(record)
        for one in waiting.leave():
            if isinstance(one, WaitingRecord):
                results.add(one.results, one.timestamp)
            else:
                results.flush()
                self.output.watermark(one)
        results.flush()
