"""Receive the records that subtasks send while their job runs, as the reader requests them.

Nothing is read ahead: sent records wait in the subtask's connection; when that is full, the subtask waits.

Source: org.apache.flink.streaming.api.operators.collect.CollectResultFetcher.
"""

import atexit
import json
import secrets
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.engine.output.print_line import print_message
from penstock.engine.run.lowering.transformations import Job
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.engine.run.runtime.job_monitor import (
    AUTHENTICATION_SECONDS,
    LONGEST_GREETING,
    MOST_STRANGERS,
    JobResult,
    RunControl,
)
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.run.runtime.run_job import BegunRun, begin_job, end_job
from penstock.engine.run.runtime.run_on_spark import Rows, records
from penstock.engine.run.runtime.spark_application import driver_host
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.connectors.sink import CollectSink
from penstock.operators.task.report import ATTEMPT_EDGE, BLOCK_HEADER, NO_EDGE, ResultsAddress
from penstock.plans.errors import JobCancelledError, JobCompileError, JobExecutionError, LostResultsError

SILENT_SECONDS = 5.0
"""If the subtask whose turn it is sends nothing for this time, the records of others are taken."""

_READ_OF_ANOTHER_ATTEMPT = (
    "a subtask ran again after some of its records had been read, and may have written other ones to sinks"
)

_CHUNK_BYTES = 1 << 20
_BACKLOG = 1024
_MOMENT_SECONDS = 0.05


class ResultReceiver:
    """A socket that subtasks connect to; not thread-safe, except `wake` and `close`.

    `subtasks` are read one after the other, so that the order of records does not depend on the load of the
    machine, unless one is silent for SILENT_SECONDS. `decode` turns the block of an edge into records. If a
    subtask is run again, the records that its earlier attempt has delivered are left out.
    """

    def __init__(
        self,
        host: str,
        subtasks: Sequence[tuple[int, int]],
        decode: Callable[[int, pa.Buffer], list[Any]],
    ) -> None:
        self.token = secrets.token_hex(16)
        self._decode = decode
        self._socket = socket.create_server((host, 0), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._subtasks = {key: _Subtask() for key in subtasks}
        self._waiting = deque(self._subtasks.values())  # subtasks that have not ended
        self._silent_from = time.monotonic() + SILENT_SECONDS
        self._all_sent = self._closed = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the socket."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def next_records(self) -> list[Any]:
        """Return the records of the next block.

        An empty list at the end, after `close`, and after `wake(all_sent=False)`.
        """
        while not self._closed and self._waiting:
            first = self._waiting[0]
            silent = self._is_silent()
            for subtask in list(self._waiting) if silent else (first,):
                block = subtask.block()
                if block is None:
                    continue
                edge, payload = block
                if edge == NO_EDGE:
                    self._waiting.remove(subtask)
                    subtask.end()
                    break
                records = subtask.not_taken(self._decode(edge, payload))
                if subtask is first:
                    self._silent_from = time.monotonic() + SILENT_SECONDS
                if records:
                    return records
                break
            else:
                wanted = list(self._waiting) if silent else [first]
                if not self._wait(wanted, self._patience(wanted)):
                    return []
        return []

    def pass_over(self) -> None:
        """Discard for a moment the records of subtasks that are run again, after all subtasks have ended."""
        self._wait([], _MOMENT_SECONDS)

    def take_only(self, attempts: Mapping[tuple[int, int], str]) -> bool:
        """Accept only these attempts of the subtasks; return False if records of other attempts were read."""
        for key, attempt in attempts.items():
            self._subtasks[key].accepted = attempt
        return all(self._subtasks[key].attempts <= {attempt} for key, attempt in attempts.items())

    def wake(self, *, all_sent: bool) -> None:
        """Wake the reader at the end of the job; unless all records are sent, it gets no further ones."""
        self._all_sent = all_sent
        with suppress(OSError):
            self._waker.send(b"+" if all_sent else b"-")

    def close(self) -> None:
        """Close all connections, so that subtasks that still send fail."""
        self._closed = True
        with suppress(OSError):
            self._waker.send(b"-")
        connections = [subtask.connection for subtask in self._subtasks.values()]
        for opened in (self._socket, self._woken, self._waker, *list(self._strangers), *connections):
            if opened is not None:
                opened.close()

    def _wait(self, wanted: "list[_Subtask]", seconds: float) -> bool:
        """Wait for bytes of `wanted`, or for a connection; False if none will come."""
        with selectors.DefaultSelector() as selector:
            try:
                for source in (self._socket, self._woken, *self._strangers):
                    selector.register(source, selectors.EVENT_READ)
                for subtask in (*wanted, *self._ended()):
                    if subtask.connection is not None:
                        selector.register(subtask.connection, selectors.EVENT_READ, subtask)
                ready = selector.select(seconds)
            except (OSError, ValueError):
                if self._closed:
                    return False
                raise
            if not ready and self._all_sent and wanted:
                if any(other.began for other in wanted):
                    raise JobExecutionError("the job has ended, but not all of its records have arrived")
                for subtask in wanted:
                    self._waiting.remove(subtask)
                    subtask.end()
            for key, _ in ready:
                if key.data is not None:
                    key.data.receive()
                elif key.fileobj is self._socket:
                    self._accept()
                elif key.fileobj is self._woken:
                    with suppress(OSError):
                        if b"-" in self._woken.recv(64):
                            return False
                else:
                    self._greet(key.fileobj)  # type: ignore[arg-type]
        now = time.monotonic()
        for connection in [opened for opened, stranger in self._strangers.items() if stranger.until < now]:
            self._drop(connection)
        return not self._closed

    def _is_silent(self) -> bool:
        now = time.monotonic()
        if now < self._silent_from:
            return False
        if all(subtask.connection is None for subtask in self._waiting):  # Spark has not started any
            self._silent_from = now + SILENT_SECONDS
            return False
        return True

    def _ended(self) -> "list[_Subtask]":
        return [subtask for subtask in self._subtasks.values() if subtask.ended]

    def _patience(self, wanted: "list[_Subtask]") -> float:
        if self._all_sent:
            return SILENT_SECONDS if any(subtask.began for subtask in wanted) else _MOMENT_SECONDS
        return max(0.0, min(self._silent_from - time.monotonic(), 1.0)) or 1.0

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # the client has gone, or this process has no descriptor left
            time.sleep(0.01)
            return
        connection.setblocking(False)
        if len(self._strangers) >= MOST_STRANGERS:
            self._drop(next(iter(self._strangers)))
        self._strangers[connection] = _Stranger()

    def _drop(self, connection: socket.socket) -> None:
        del self._strangers[connection]
        connection.close()

    def _greet(self, connection: socket.socket) -> None:
        """Read more of the first line of a connection, which names its subtask and attempt."""
        received = self._strangers[connection].received
        try:
            chunk = connection.recv(LONGEST_GREETING + 1 - len(received))
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        received += chunk
        line, end, rest = bytes(received).partition(b"\n")
        if not end:
            if not chunk or len(received) > LONGEST_GREETING:
                self._drop(connection)
            return
        greeted = self._find_greeted(line)
        if greeted is None:
            self._drop(connection)
            return
        del self._strangers[connection]
        subtask, attempt = greeted
        subtask.connect(connection, rest, attempt)

    def _find_greeted(self, line: bytes) -> "tuple[_Subtask, str] | None":
        try:
            greeting = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(greeting, dict) or not isinstance(token := greeting.get("token"), str):
            return None
        if not secrets.compare_digest(token.encode(errors="replace"), self.token.encode()):
            return None
        key = (greeting.get("vertex"), greeting.get("subtask"))
        if not all(type(number) is int for number in key) or key not in self._subtasks:
            return None
        return self._subtasks[key], str(greeting.get("attempt"))


class _Stranger:
    """A connection that has not authenticated yet."""

    def __init__(self) -> None:
        self.until = time.monotonic() + AUTHENTICATION_SECONDS
        self.received = bytearray()


class _Subtask:
    """The connection of one subtask, and the bytes it has sent."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.began = False  #: Spark has run it; Spark leaves out the subtasks of a DataFrame without rows
        self.ended = False  #: all of its records are here; records of a further attempt are discarded
        self.attempts = set[str]()  #: attempts of which records were delivered
        self.accepted: str | None = None  #: the attempt that counts for Spark, once it is known
        self._attempt = ""
        self._received = bytearray()
        self._taken = self._known = 0  # records delivered; of these, the number that will arrive once more

    def connect(self, connection: socket.socket, received: bytes, attempt: str) -> None:
        """Begin an attempt, and end the one before it."""
        self.hang_up()
        self.connection, self._received, self._known = connection, bytearray(received), self._taken
        self._attempt = attempt
        self.began = True

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def end(self) -> None:
        """Note that the subtask has no further records, and close its connection."""
        self.ended = True
        self.hang_up()

    def receive(self) -> None:
        """Read the bytes that have arrived; drop a connection that ended early: another one may follow."""
        assert self.connection is not None
        try:
            chunk = self.connection.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk and not self.ended:
            self._received += chunk
        elif chunk:
            return
        else:
            self.hang_up()
            self._received.clear()

    def block(self) -> tuple[int, pa.Buffer] | None:
        """Return the edge and payload of the next block; None if it has not arrived completely."""
        if len(self._received) < BLOCK_HEADER.size:
            return None
        edge, length = BLOCK_HEADER.unpack_from(self._received)
        end = BLOCK_HEADER.size + length
        if len(self._received) < end:
            return None
        payload = pa.py_buffer(bytes(self._received[BLOCK_HEADER.size : end]))
        del self._received[:end]
        return edge, payload

    def not_taken(self, records: list[Any]) -> list[Any]:
        """Return the part of the next `records` that no earlier attempt has delivered."""
        known = min(self._known, len(records))
        self._known -= known
        self._taken += len(records) - known
        if known < len(records):
            self.attempts.add(self._attempt)
            if self.accepted not in (None, self._attempt):
                raise JobExecutionError(_READ_OF_ANOTHER_ATTEMPT)
        return records[known:]


# Records of `execute_and_collect` on their way to the driver while the job runs.
#
# Flink's collect sink is one subtask that all upstream subtasks write to. On Spark that exchange would be
# a barrier: the first record would arrive once the last one is made. In STREAMING mode the driver is this
# subtask instead, and reads from the upstream subtasks directly.


@dataclass(frozen=True)
class ResultsToDriver:
    """A job whose only CollectSink receives its records over a socket."""

    compiled: CompiledJob
    types: dict[int, TypeInformation | None]  #: record type of each edge that leads to the driver
    subtasks: tuple[tuple[int, int], ...]  #: (vertex, subtask) that write to these edges, in reading order
    here: int | None  #: the vertex that the driver runs; None if the sink is chained to other operators


def results_to_driver(compiled: CompiledJob, *, batch: bool) -> ResultsToDriver:
    """Change `compiled` so that the driver reads its records while it runs.

    In BATCH mode the exchange before the sink is a barrier in Flink too, and stays an exchange.
    """
    (terminal,) = (end for end in compiled.terminals if isinstance(end.sink, CollectSink))
    last = next(
        vertex
        for vertex in compiled.vertices
        if any(operator.node == terminal.node for operator in vertex.chain.operators)
    )
    if batch or len(last.chain.operators) > 1:
        subtasks = tuple((last.chain.vertex, subtask) for subtask in range(last.chain.parallelism))
        types = {terminal.edge: terminal.transformation.output_type}
        return ResultsToDriver(compiled, types, subtasks, None)
    types = {gate.edge: gate.type_info for gate in last.chain.gates}
    vertices = tuple(
        _writing_to_driver(vertex_before, types)
        for vertex_before in compiled.vertices
        if vertex_before is not last
    )
    first_edges = {
        vertex_before.chain.vertex: min(
            output.edge for output in vertex_before.chain.outputs if output.to_driver
        )
        for vertex_before in vertices
        if any(output.to_driver for output in vertex_before.chain.outputs)
    }
    sizes = {vertex_before.chain.vertex: vertex_before.chain.parallelism for vertex_before in vertices}
    subtasks = tuple(
        (vertex, subtask)
        for vertex in sorted(first_edges, key=lambda vertex: first_edges[vertex])
        for subtask in range(sizes[vertex])
    )
    return ResultsToDriver(CompiledJob(vertices, compiled.terminals), types, subtasks, last.chain.vertex)


def _writing_to_driver(vertex: CompiledVertex, types: dict[int, TypeInformation | None]) -> CompiledVertex:
    outputs = tuple(
        replace(output, to_driver=True) if output.edge in types else output for output in vertex.chain.outputs
    )
    return replace(vertex, chain=replace(vertex.chain, outputs=outputs))


# `execute_and_collect` without a limit: a job runs in a thread while its records are read one by one.
#
# Source: org.apache.flink.streaming.api.operators.collect.{CollectResultIterator,CollectResultFetcher}.


#: `close` waits up to this time until Spark has ended the job.
_SECONDS_TO_END = 60.0


class CollectedRecords:
    """An iterator over the records of a job's CollectSink; its construction starts the job.

    If the job fails, its error is raised when the next record is requested, and the iterator is exhausted.
    `close` cancels the job, as does dropping the last reference to the iterator. The constructor raises
    JobCompileError if the job cannot run.
    """

    def __init__(self, job: Job, convert: Callable[[list[Any]], list[Any]], context: RunContext) -> None:
        self._convert, self.context = convert, context
        self._ready: list[Any] = []  # in reverse
        begun = begin_job(job, context, RunControl())
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
        """Cancel the job unless it has ended, wait for its end, and discard its remaining records."""
        self._ready = []
        open_collects.discard(self)
        if self._finalizer.detach() is not None:
            self._run.cancel()
            self._run.join()


#: Iterators that were neither read to their end nor closed.
open_collects: weakref.WeakSet[CollectedRecords] = weakref.WeakSet()


#: Runs whose job has not ended. A thread that still works when the interpreter exits would abort it.
_running: "set[_Run]" = set()


class _Run:
    """The job of one CollectedRecords; holds no reference to it, so that it can be dropped during the run."""

    def __init__(self, begun: BegunRun) -> None:
        self._begun, self.name, self.context = begun, begun.job.name, begun.context
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
        """Start the job; raises JobCompileError if it cannot be sent to Spark."""
        _running.add(self)
        self._thread.start()
        self._begun.control.submitted.wait()
        if isinstance(self._error, JobCompileError):
            raise self._error

    def next_records(self) -> list[Any] | None:
        """Return the next records; None at the end. Raises the error with which the job fails."""
        records = self._receiver.next_records()
        if records:
            return records
        while self._thread.is_alive():
            self._receiver.pass_over()
        if self._error is not None:
            raise self._error
        return None

    def cancel(self) -> None:
        """Close the connections, and cancel the job if it is still running."""
        self._receiver.close()
        if self._thread.is_alive():
            with suppress(Exception):  # Spark itself has ended
                self._begun.control.cancel()

    def lose(self) -> None:
        """Cancel the job because its iterator is gone, so that its records can no longer be read."""
        if self._thread.is_alive() and len(self._begun.compiled.terminals) > 1:
            print_message(
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
            end_job(self._begun, sending=results.compiled, address=address, confirm=self._confirm)
            self._receiver.wake(all_sent=True)
        except BaseException as error:
            self._error = error
            self._receiver.wake(all_sent=False)
        finally:
            self._begun.control.submitted.set()
            _running.discard(self)

    def _confirm(self, rows: Rows) -> None:
        """Raise LostResultsError if reader and sinks got records of different attempts of a subtask."""
        attempts = {
            (vertex, subtask): payload.to_pybytes().decode()
            for edge, subtask, vertex, payload in rows
            if edge == ATTEMPT_EDGE
        }
        if not self._receiver.take_only(attempts):
            raise LostResultsError(
                f"job {self.name!r} failed: {_READ_OF_ANOTHER_ATTEMPT}; its sinks get nothing"
            )


@contextmanager
def collects_end_with_script(context: RunContext) -> Iterator[None]:
    """Close the iterators that a script has left open at the end of the block, which cancels their jobs."""
    try:
        yield
    finally:
        _close_open_collects(lambda of: of is context)


@atexit.register
def _close_open_collects(chosen: Callable[[RunContext], bool] = lambda context: True) -> None:
    for collect in list(open_collects):
        if chosen(collect.context):
            collect.close()
    for run in list(_running):  # whose iterator is gone
        if chosen(run.context):
            run.join()
