"""A run while it lasts, and its result: reports of its subtasks about every attempt, its progress, its state.

Source: org.apache.flink.runtime.executiongraph.{ExecutionGraph.updateState,Execution}.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import select
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from penstock.engine.output.pieces import html_table
from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.spark_application import cancel_group_and_future_jobs
from penstock.operators.functions.add_up_metrics import add_up_metrics, metrics_by_name
from penstock.operators.task.report import LONGEST_REPORT, ReportAddress
from penstock.plans.errors import JobCancelledError
from penstock.plans.installation import own_version
from penstock.plans.printable import MOST_OF_A_NAME, limited, printable
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import ExecutionState

if TYPE_CHECKING:
    from penstock.engine.run.runtime.recover_jobs import RecoveredJob

# The server of reports: JSON lines from senders that know the job's token, received on one thread.


LONGEST_GREETING = 1024
"""Bytes of the first line, which holds the token."""

AUTHENTICATION_SECONDS = 10.0
"""A connection that has not sent its token after this time is closed."""

MOST_STRANGERS = 256
"""Limit of connections that have not sent a token yet; beyond it, the oldest of them is closed."""

PATIENCE_SECONDS = 1.0
"""No connection is closed to make room before this time, so that it can send its token."""

CHANGE_SECONDS = 0.1
"""Least time between two calls of `on_change`."""

_CHUNK = 32768
_PAUSE_SECONDS = 0.01
"""Pause before each chunk of a connection, so that an endless sender leaves time for all others."""

_BACKLOG = 1024


class ReportServer:
    """A context manager that passes reports to `take`, then calls `on_change`; all run on its thread.

    A connection first sends an object whose `token` is the job's, then any number of reports. It is closed at
    a line that is too long or not a JSON object, and if `take` returns False; nothing is printed. `hung_up`
    gets the last report that was taken from a connection that has ended.
    """

    def __init__(
        self,
        host: str,
        token: str,
        take: Callable[[dict[str, Any]], bool],
        hung_up: Callable[[dict[str, Any]], None],
        on_change: Callable[[], None],
    ) -> None:
        self._host, self._token = host, token.encode()
        self._take, self._hung_up, self._on_change = take, hung_up, on_change
        self._connections: set[socket.socket] = set()
        self._strangers: dict[asyncio.Task[None], float] = {}  # time of arrival, the oldest first
        self._room = asyncio.Event()
        self._change: asyncio.TimerHandle | None = None

    def __enter__(self) -> ReportServer:
        """Start listening."""
        self._socket = socket.create_server((self._host, 0), backlog=_BACKLOG)
        self._socket.setblocking(False)
        self._loop = asyncio.new_event_loop()
        self._listening = self._loop.create_task(self._listen())
        self._thread = threading.Thread(target=self._run, name="penstock-reports", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """Close all connections and end the thread."""
        self._loop.call_soon_threadsafe(self._listening.cancel)
        self._thread.join()
        self._socket.close()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the socket."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def drain(self, seconds: float = 1.0) -> None:
        """Wait until all reports that have arrived by now are taken, for `seconds` at most."""
        asyncio.run_coroutine_threadsafe(self._drained(seconds), self._loop).result()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._listening)
        except asyncio.CancelledError:
            pass
        finally:
            for connection in self._connections:  # nothing was read from these
                connection.close()
            self._loop.close()

    async def _listen(self) -> None:
        async with asyncio.TaskGroup() as connections:
            while True:
                await self._make_room()
                try:
                    connection, _ = self._socket.accept()
                except BlockingIOError:
                    await self._arrival()
                    continue
                except OSError:  # the client has gone, or this process has no descriptor left
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                self._connections.add(connection)
                connection.setblocking(False)
                task = connections.create_task(self._hear(connection))
                self._strangers[task] = self._loop.time()
                task.add_done_callback(self._no_stranger)
                await asyncio.sleep(0)

    async def _arrival(self) -> None:
        """Wait for a connection. Not by sock_accept, which loses the connection when it is cancelled."""
        arrived = asyncio.Event()
        self._loop.add_reader(self._socket, arrived.set)
        try:
            await arrived.wait()
        finally:
            self._loop.remove_reader(self._socket)

    async def _make_room(self) -> None:
        while len(self._strangers) >= MOST_STRANGERS:
            oldest, since = next(iter(self._strangers.items()))
            self._room.clear()
            try:
                async with asyncio.timeout_at(since + PATIENCE_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                oldest.cancel()
                self._no_stranger(oldest)

    def _no_stranger(self, task: asyncio.Task[None]) -> None:
        if self._strangers.pop(task, None) is not None:
            self._room.set()

    async def _hear(self, connection: socket.socket) -> None:
        received = bytearray()
        taken = None
        try:
            async with asyncio.timeout(AUTHENTICATION_SECONDS):
                greeting = await self._message(connection, received, LONGEST_GREETING)
            token = (greeting or {}).get("token")
            if not isinstance(token, str) or not self._is_token(token):
                return
            self._no_stranger(asyncio.current_task())  # type: ignore[arg-type]
            while (report := await self._message(connection, received, LONGEST_REPORT)) is not None:
                if not self._take(report):
                    return
                taken = report
                if self._change is None:
                    self._change = self._loop.call_later(CHANGE_SECONDS, self._report_change)
        except OSError:  # a timeout too
            return
        finally:
            self._connections.discard(connection)
            connection.close()
            if taken is not None:
                self._hung_up(taken)

    def _is_token(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(errors="replace"), self._token)

    def _report_change(self) -> None:
        self._change = None
        self._on_change()

    async def _message(
        self, connection: socket.socket, received: bytearray, longest: int
    ) -> dict[str, Any] | None:
        """Return the object on the next line; None at the end, or if the line is too long or no object."""
        while (end := received.find(b"\n")) < 0:
            if len(received) > longest:
                return None
            await asyncio.sleep(_PAUSE_SECONDS)
            chunk = await self._loop.sock_recv(connection, min(_CHUNK, longest + 1))
            if not chunk:
                return None
            received += chunk
        line = bytes(received[:end])
        del received[: end + 1]
        try:
            message = json.loads(line) if len(line) <= longest else None
        except (ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None

    async def _drained(self, seconds: float) -> None:
        until, quiet = self._loop.time() + seconds, 0
        while quiet < 2 and self._loop.time() < until:  # a report is taken one loop turn after it is read
            quiet = 0 if self._has_arrived() else quiet + 1
            await asyncio.sleep(_PAUSE_SECONDS)

    def _has_arrived(self) -> bool:
        """Whether bytes of a connection are unread, or a connection waits to be accepted."""
        readable = select.poll()
        for source in (self._socket, *self._connections):
            readable.register(source, select.POLLIN)
        return bool(readable.poll(0))


@dataclass
class Attempt:
    """The state of one attempt of a subtask, an Execution in Flink."""

    vertex: int
    subtask: int
    attempt_number: int
    state: ExecutionState = ExecutionState.CREATED
    state_timestamps: dict[str, int] = field(default_factory=dict)  #: milliseconds since the epoch
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    host: str | None = None
    failure: dict[str, str] | None = None
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)  #: by operator and name, at its end
    lost_at: int | None = None  #: time at which it hung up without having reported its end

    def enter(self, state: ExecutionState, at: int | None = None) -> None:
        """Record a state; a final one does not change any more."""
        if self.state not in FINAL_STATES:
            self.state = state
            self.state_timestamps.setdefault(state.value, at or now())


FINAL_STATES = frozenset({ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED})
_COUNTS = ("records_in", "records_out", "bytes_in", "bytes_out")
"""The counts that an attempt reports."""

FAILURE = ("error", "traceback", "frames", "operator", "record", "cause", "during", "hint")
"""The texts of a failure that an attempt reports."""

MOST_ATTEMPTS = 10_000
"""Limit for one subtask. Spark makes up to spark.task.maxFailures attempts in each attempt of the stage."""

_STATES = frozenset(state.value for state in ExecutionState)
_LONGEST_HOST = 255
_LAST_TIME = 253_402_300_800_000
"""Milliseconds from the epoch to the year 10,000."""


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class JobMonitor:
    """Listens to the subtasks of one job; a context manager.

    `on_change` is called, from another thread, soon after reports. `earlier`: attempts of the same job before
    it was started again; the numbers of new attempts continue from these.
    """

    def __init__(
        self,
        parallelism: Mapping[int, int],
        host: str,
        on_change: Callable[[JobMonitor], None] = lambda monitor: None,
        earlier: Sequence[Attempt] = (),
    ) -> None:
        self.parallelism = dict(parallelism)
        self.attempts = {
            (attempt.vertex, attempt.subtask, attempt.attempt_number): attempt for attempt in earlier
        }
        self._earlier = frozenset(self.attempts)
        following = {key[:2]: key[2] + 1 for key in sorted(self._earlier)}
        #: By vertex: the number of the first new attempt of each subtask.
        self.first_attempts = {
            vertex: tuple(following.get((vertex, subtask), 0) for subtask in range(count))
            for vertex, count in parallelism.items()
        }
        self._lock = threading.Lock()
        self._token = secrets.token_hex(16)
        self._server = ReportServer(host, self._token, self._take, self._hung_up, lambda: on_change(self))
        for vertex, count in parallelism.items():
            for subtask in range(count):
                first = self.first_attempts[vertex][subtask]
                self._attempt(vertex, subtask, first).enter(ExecutionState.CREATED)

    def __enter__(self) -> JobMonitor:
        """Start listening."""
        self._server.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening."""
        self._server.__exit__(*raised)

    @property
    def address(self) -> ReportAddress:
        """The address and token that subtasks report with."""
        host, port = self._server.address
        return ReportAddress(host=host, port=port, token=self._token)

    def submitted(self, here: int | None = None) -> None:
        """Note that Spark's scheduler has the job; the driver is the only subtask of the vertex `here`."""
        self._all(ExecutionState.SCHEDULED)
        if here is not None:
            attempt = self.attempts[here, 0, 0]
            attempt.host = os.uname().nodename
            for state in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING):
                attempt.enter(state)

    def count_here(self, here: int, writers: Collection[int]) -> None:
        """Set the input of `here`, the driver's vertex, to the output of `writers`, which it alone reads."""
        self.attempts[here, 0, 0].records_in = sum(self.summary(writer)["records_out"] for writer in writers)

    def cancelling(self) -> None:
        """Note that the job is being cancelled."""
        self._all(ExecutionState.CANCELING)

    def ended(self, *, finished: bool) -> None:
        """Give attempts that have not reported an end the final state of Spark's job, which has ended."""
        self.catch_up()
        with self._lock:
            for attempt in self.attempts.values():
                if attempt.state not in FINAL_STATES:
                    attempt.enter(ExecutionState.FINISHED if finished else ExecutionState.CANCELED)

    def catch_up(self) -> None:
        """Take the reports that have arrived by now."""
        self._server.drain()

    def first_failure(self) -> Attempt | None:
        """Return the attempt that failed first."""
        failed = [attempt for attempt in self._attempts_of_this_start() if attempt.failure is not None]
        return min(failed, key=lambda by_time: by_time.state_timestamps.get("FAILED", 0), default=None)

    def first_lost(self, seconds: float = 2.0) -> Attempt | None:
        """Return the attempt that first hung up without reporting its end, after waiting up to `seconds`."""
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                lost = [attempt for attempt in self._attempts_of_this_start() if attempt.lost_at is not None]
            if lost or time.monotonic() > until:
                return min(lost, key=lambda attempt: attempt.lost_at or 0, default=None)
            time.sleep(0.02)

    def summary(self, vertex: int) -> dict[str, int]:
        """Return a vertex's finished subtasks, attempts, and the records and bytes of the last attempts."""
        with self._lock:
            mine = [attempt for attempt in self.attempts.values() if attempt.vertex == vertex]
            last: dict[int, Attempt] = {}
            for attempt in sorted(mine, key=lambda unsorted: unsorted.attempt_number):
                last[attempt.subtask] = attempt
            counts = {name: sum(getattr(latest, name) for latest in last.values()) for name in _COUNTS}
            done = sum(latest.state is ExecutionState.FINISHED for latest in last.values())
            return {"finished": done, "attempts": len(mine), **counts}

    def snapshot(self) -> list[Attempt]:
        """Return copies of all attempts, sorted by vertex, subtask and number."""
        with self._lock:
            return [
                replace(attempt, state_timestamps=dict(attempt.state_timestamps))
                for _, attempt in sorted(self.attempts.items())
            ]

    def _attempts_of_this_start(self) -> list[Attempt]:
        return [attempt for key, attempt in self.attempts.copy().items() if key not in self._earlier]

    def _all(self, state: ExecutionState) -> None:
        with self._lock:
            for attempt in self.attempts.values():
                attempt.enter(state)

    def _attempt(self, vertex: int, subtask: int, number: int) -> Attempt:
        key = (vertex, subtask, number)
        if key not in self.attempts:
            self.attempts[key] = Attempt(vertex, subtask, number)
        return self.attempts[key]

    def _hung_up(self, report: Mapping[str, Any]) -> None:
        """Note the end of the connection whose last report is `report`."""
        with self._lock:
            attempt = self._attempt(report["vertex"], report["subtask"], report["attempt_number"])
            if attempt.state not in FINAL_STATES:
                attempt.lost_at = now()

    def _take(self, report: Mapping[str, Any]) -> bool:
        """Take a report; return False if it names no valid attempt. Other wrong values are ignored."""
        vertex, subtask, number = (report.get(key) for key in ("vertex", "subtask", "attempt_number"))
        if not (_is_count(vertex) and _is_count(subtask) and _is_count(number)):
            return False
        if subtask >= self.parallelism.get(vertex, 0) or number >= MOST_ATTEMPTS:
            return False
        with self._lock:
            attempt = self._attempt(vertex, subtask, number)
            for name in _COUNTS:
                if _is_count(report.get(name)):
                    setattr(attempt, name, report[name])
            if isinstance(metrics := report.get("metrics"), dict):
                attempt.metrics = {
                    name: values for name, values in metrics.items() if isinstance(values, dict)
                }
            if isinstance(host := report.get("host"), str):
                attempt.host = host[:_LONGEST_HOST]
            if isinstance(state := report.get("state"), str) and state in _STATES:
                if state == ExecutionState.FAILED:
                    attempt.failure = {
                        "error": "",
                        "traceback": "",
                        **{key: report[key] for key in FAILURE if isinstance(report.get(key), str)},
                    }
                at = report.get("at")
                attempt.enter(ExecutionState(state), at if _is_count(at) and at < _LAST_TIME else None)
        return True


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


@contextmanager
def show_run(name: str, compiled: CompiledJob) -> Iterator[Callable[[JobMonitor], None]]:
    """Show the progress of each JobVertex if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda monitor: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f} subtasks"),
        TextColumn("{task.fields[records]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[int, TaskID] = {
            compiled_vertex.chain.vertex: bar.add_task(
                printable(compiled_vertex.chain.name[:48]),
                total=compiled_vertex.chain.parallelism,
                records="",
                start=False,
            )
            for compiled_vertex in compiled.vertices
        }

        def on_change(monitor: JobMonitor) -> None:
            for vertex, task in tasks.items():
                summary = monitor.summary(vertex)
                if any(
                    attempt.vertex == vertex and attempt.host for attempt in monitor.attempts.copy().values()
                ):
                    bar.start_task(task)
                records = max(summary["records_in"], summary["records_out"])
                bar.update(
                    task, completed=summary["finished"], records=f"{records:,} records" if records else ""
                )

        yield on_change


# The result of a run, with the attempts of its subtasks.


@dataclass(repr=False)
class JobResult:
    """The result of a job that has ended.

    Attributes:
        job_id: 32 hex digits, new for each run.
        name: The job's name.
        batch: Whether it ran in BATCH mode.
        state: FINISHED, FAILED or CANCELED.
        failure: Why it did not finish; None if it did.
        started_at: Milliseconds since the epoch.
        milliseconds: Its duration.
        attempts: Each execution of a subtask: vertex, subtask, attempt_number, state, state_timestamps,
            records_in, records_out, bytes_in, bytes_out, host and failure.
        tables: Arrow tables of the plan that ran, by name.
        options: Options of that plan, as a store records them.
    """

    job_id: str
    name: str
    batch: bool
    state: str  #: JobStatus: FINISHED, FAILED or CANCELED
    failure: str | None
    started_at: int  #: milliseconds since the epoch
    milliseconds: int
    attempts: list[Attempt]
    tables: dict[str, pa.Table]  #: the plan that ran
    compiled: CompiledJob
    options: dict[str, str] = field(default_factory=dict)  #: options of the plan, as a store records them
    collected: dict[int, list[Any]] = field(default_factory=dict)  #: by `Transformation.created`

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Metrics of the job's functions, by operator and name, over all subtasks.

        Counters, meters and gauges are added up; a distribution has `sum`, `count`, `min` and `max`.
        """
        last = {
            (last_of_subtask.vertex, last_of_subtask.subtask): last_of_subtask
            for last_of_subtask in self.attempts
        }  # attempts are in order
        return add_up_metrics(attempt.metrics for attempt in last.values())

    def accumulators(self) -> dict[str, Any]:
        """Return the metrics by their own names, over all operators, like Flink's accumulators."""
        return metrics_by_name(self.metrics)

    def __repr__(self) -> str:
        return f"<penstock job {self._ended()}>"

    def _repr_html_(self) -> str:
        counts = ("subtasks", "records_in", "records_out", "attempts")
        rows = [(name, *(f"{summary[count]:,}" for count in counts)) for name, summary in summaries(self)]
        columns = ("vertex", *(count.replace("_", " ") for count in counts))
        return html_table(f"job {self._ended()}", columns, rows)

    def _ended(self) -> str:
        name, vertices = limited(printable(self.name), MOST_OF_A_NAME), len(self.compiled.vertices)
        return f"{name}: {self.state} in {self.milliseconds / 1000:.1f} s, {vertices:,} vertices"


def summaries(result: JobResult) -> list[tuple[str, dict[str, int]]]:
    """Return name and counts (subtasks, attempts, records and bytes in and out) of each vertex, in
    topological order.
    """
    vertex_summaries = []
    for vertex in result.compiled.vertices:
        mine = [attempt for attempt in result.attempts if attempt.vertex == vertex.chain.vertex]
        last = {attempt.subtask: attempt for attempt in mine}  # attempts are in order
        counts = {name: sum(getattr(attempt, name) for attempt in last.values()) for name in _COUNTS}
        vertex_summaries.append((vertex.chain.name, {"subtasks": len(last), "attempts": len(mine), **counts}))
    return vertex_summaries


# The state of a run while it lasts, and its cancellation.


_FINAL_STATES = ("FINISHED", "CANCELED", "FAILED")


@dataclass
class RunControl:
    """The id and state of a run while it lasts, and whether its cancellation was requested."""

    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    cancel_requested: threading.Event = field(default_factory=threading.Event)
    submitted: threading.Event = field(default_factory=threading.Event)  #: it is with Spark's scheduler
    state: str = "CREATED"  #: JobStatus
    monitor: JobMonitor | None = None  #: while Spark runs it
    recovered: RecoveredJob | None = None  #: its saved data sets
    on_end: list[Callable[[JobResult], None]] = field(default_factory=list)
    spark: SparkSession | None = None  #: the session that it runs in, once it has begun

    def cancel(self) -> None:
        """Stop the run; it ends as CANCELED."""
        self.cancel_requested.set()
        if self.spark is not None:
            # jobs of the run that are not submitted to Spark yet must not start either
            cancel_group_and_future_jobs(self.spark, self.job_id, lambda: self.state in _FINAL_STATES)


def ended(control: RunControl, result: JobResult, error: BaseException | None = None) -> None:
    """Record the end of a run in its result, in `control`, and in the list of jobs (`on_end`)."""
    cancelled = isinstance(error, JobCancelledError | KeyboardInterrupt)
    result.state = "FINISHED" if error is None else "CANCELED" if cancelled else "FAILED"
    result.failure = None if error is None else redact(str(error))
    result.milliseconds = now() - result.started_at
    control.state = result.state
    for listener in control.on_end:
        listener(result)


# A run as rows of tables: its executions and its summary.


def tables_of_run(result: JobResult) -> dict[str, pa.Table]:
    """Return tables `executions` and `runs` of plans.tables, for one run.

    Source of attempt ids: org.apache.flink.runtime.executiongraph.ExecutionAttemptID.toString.
    """
    (topology_id,) = result.tables["topologies"]["topology_id"].to_pylist()
    vertex_ids = {vertex.chain.vertex: vertex.vertex_id for vertex in result.compiled.vertices}
    executions = [
        {
            "topology_id": topology_id,
            "vertex": attempt.vertex,
            "subtask": attempt.subtask,
            "attempt_number": attempt.attempt_number,
            "attempt_id": f"{result.job_id}_{vertex_ids[attempt.vertex]}"
            f"_{attempt.subtask}_{attempt.attempt_number}",
            "state": attempt.state.value,
            "state_timestamps": [(state, _time(at)) for state, at in attempt.state_timestamps.items()],
            "host": attempt.host,
            **{
                name: getattr(attempt, name) if attempt.host else None
                for name in ("records_in", "records_out", "bytes_in", "bytes_out")
            },
            "failure": _redacted(
                _failure_text(attempt.failure, "cause") or _failure_text(attempt.failure, "error")
            ),
            "failed_operator": _failure_text(attempt.failure, "operator"),
            "failed_record": _redacted(_failure_text(attempt.failure, "record")),
            "metrics": json.dumps(attempt.metrics, default=str, sort_keys=True) if attempt.metrics else None,
        }
        for attempt in result.attempts
    ]
    run = {
        "topology_id": topology_id,
        "run_id": result.job_id,
        "name": result.name,
        "state": result.state,
        "runtime_mode": "BATCH" if result.batch else "STREAMING",
        "started_at": _time(result.started_at),
        "milliseconds": result.milliseconds,
        "vertices": len(result.compiled.vertices),
        "subtasks": sum(vertex.chain.parallelism for vertex in result.compiled.vertices),
        "attempts": sum(attempt.host is not None for attempt in result.attempts),
        "failure": result.failure,
    }
    return {
        "executions": pa.Table.from_pylist(executions, TABLES["executions"]),
        "runs": pa.Table.from_pylist([run], TABLES["runs"]),
    }


def write_run(store: str, result: JobResult) -> int:
    """Write the run and the plan it ran to `store`; return the new version's number. Raises StoreError."""
    from penstock.engine.store.delta_rs_tables import DeltaRsTables
    from penstock.engine.store.write_plan import write_version

    return write_version(
        DeltaRsTables(store),
        {**result.tables, **tables_of_run(result)},
        planner_version=own_version(),
        options={**result.options, "run": result.job_id},
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _failure_text(failure: Mapping[str, str] | None, key: str) -> str | None:
    return None if failure is None else failure.get(key)


def _redacted(text: str | None) -> str | None:
    return None if text is None else redact(text)
