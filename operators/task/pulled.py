"""Turn a function that pushes into an iterator to pull from.

Spark pulls: it takes a subtask's rows from an iterator and stops when it has enough. Operators push: they
emit a row deep inside calls from operator to operator. `pulled` runs the pushing side in a thread, and only
one of the two runs at a time: `put` waits for the request for the next row. So a row waits for its reader
instead of in memory, and a reader that has enough ends the calls.
"""

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import pyarrow as pa

from penstock.operators.chain.errors import NO_RECORD, EnoughResults, describe_record
from penstock.operators.chain.operator import OperatorContext, failure
from penstock.operators.task.build_chain import Chain, OperatorSpec
from penstock.operators.task.report import TaskSpec

# The sources of a subtask: reads its splits, chunk by chunk, into the chain
#
# Source: org.apache.flink.streaming.api.operators.SourceOperator,
# org.apache.flink.streaming.runtime.io.StreamTaskSourceInput.


def read_sources(
    spec: TaskSpec,
    chain: Chain,
    context: OperatorContext,
    batches: Iterator[pa.RecordBatch],
    takes: Callable[[int, bool], bool] | None = None,
) -> Iterator[None]:
    """Read all splits of this subtask, source by source; yield after every chunk.

    A source whose `reads_dataframe` is true has no splits: its records are the Spark partition itself.
    `takes` is called with each watermark and True, or with a number of records and False; a watermark passes
    if it returns True.
    """
    for operator_spec in spec.chain.operators:
        if operator_spec.source:
            output, source_context = chain.outputs[operator_spec.node], chain.contexts[operator_spec.node]
            for chunk in _chunks(operator_spec, source_context, context, batches):
                if isinstance(chunk, int):
                    if takes is None or takes(chunk, True):
                        output.watermark(chunk)
                    yield
                    continue
                columnar = operator_spec.operator.columnar
                if takes is not None:
                    takes(chunk.batch.num_rows if columnar else len(chunk.values), False)
                if columnar:
                    output.collect_batch(chunk.batch, chunk.timestamps)
                else:
                    output.collect(chunk.values, chunk.timestamps)
                yield


def _chunks(
    operator_spec: OperatorSpec,
    source_context: OperatorContext,
    context: OperatorContext,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[Any]:
    """Yield the records of a source in chunks. Raises UserFunctionError that names source and split."""
    source = operator_spec.operator
    if getattr(source, "reads_dataframe", False):
        yield from _read_dataframe(source, source_context, context, batches)
        return
    for split in operator_spec.splits[context.subtask] if context.subtask < len(operator_spec.splits) else ():
        rest = None
        while True:
            try:
                if rest is None:
                    rest = iter(source.read(split, context))
                chunk = next(rest, None)
            except BaseException as error:
                raise failure(
                    source_context, error, NO_RECORD, f"reading {describe_record(split)}"
                ) from error
            if chunk is None:
                break
            yield chunk


def _read_dataframe(
    source: Any, source_context: OperatorContext, context: OperatorContext, batches: Iterator[pa.RecordBatch]
) -> Iterator[Any]:
    """Yield the Spark partition as chunks; in STREAMING mode watermarks too, the first one before any row.

    That first watermark keeps the subtasks in order where their records meet: the event time of each begins
    where the one before it ends.
    """
    ordered = source.event_time is not None and not context.batch
    begun = False
    for batch in batches:
        if not batch.num_rows:
            continue
        try:
            chunk = source.stamped(batch) if source.columnar else source.values(batch.num_rows)
        except BaseException as error:
            raise failure(source_context, error, NO_RECORD, "reading a DataFrame") from error
        if ordered and not begun:
            begun = True
            yield source.watermark(chunk.timestamps[0].as_py())
        yield chunk
        if ordered:
            yield source.watermark(chunk.timestamps[-1].as_py())


T = TypeVar("T")

#: Seconds that a reader which has enough waits for the pushing side, which may itself wait for input.
_SECONDS_TO_END = 10.0
#: Upper estimate of the stack memory of a Python call.
_BYTES_PER_CALL = 4096
_LEAST_STACK_BYTES = 8 << 20


def pulled(
    push: Callable[[Callable[[T], None]], None], name: str, calls: int = 1000
) -> Generator[T, None, None]:
    """Yield the values that `push` passes to its argument, one by one, on request.

    `push` runs in a thread called `name`, with room for `calls` nested Python calls. Its exceptions are
    raised here. Once the iterator is closed, the argument of `push` raises EnoughResults.
    """
    pusher = _Pusher(push)
    with _room_for_calls(calls):
        thread = threading.Thread(target=pusher.run, name=name, daemon=True)
        thread.start()
        try:
            while pusher.proceed():
                row, pusher.rows = pusher.rows, []
                yield row[0]
        finally:
            if not pusher.ended:
                pusher.enough = True
                pusher.wanted.release()
            thread.join(_SECONDS_TO_END)
        if pusher.error is not None:
            raise pusher.error


class _Pusher(Generic[T]):
    def __init__(self, push: Callable[[Callable[[T], None]], None]) -> None:
        self._push = push
        self.wanted, self.given = threading.Semaphore(0), threading.Semaphore(0)
        self.rows: list[T] = []  #: the last row put
        self.error: BaseException | None = None
        self.ended = self.enough = False

    def proceed(self) -> bool:
        """Let the pushing side run until it has put a row; return False if it has ended instead."""
        self.wanted.release()
        self.given.acquire()
        return not self.ended

    def run(self) -> None:
        self.wanted.acquire()
        try:
            if not self.enough:
                self._push(self._put)
        except EnoughResults:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self.given.release()

    def _put(self, row: T) -> None:
        if not self.enough:
            self.rows = [row]
            self.given.release()
            self.wanted.acquire()
        if self.enough:
            raise EnoughResults


@contextmanager
def _room_for_calls(calls: int) -> Iterator[None]:
    """Let threads started inside nest `calls` Python calls, with some room for native code."""
    limit, stack_bytes = sys.getrecursionlimit(), threading.stack_size()
    sys.setrecursionlimit(max(limit, calls))
    threading.stack_size(max(_LEAST_STACK_BYTES, calls * _BYTES_PER_CALL))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack_bytes)
