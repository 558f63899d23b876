"""What the subtasks of a job report: every attempt with its states, records and failure, as it happens.

Source: org.apache.flink.runtime.executiongraph.{ExecutionGraph.updateState,Execution}.
"""

import json
import secrets
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from operators.task.task_spec import ReportAddress
from plans.vocabulary import ExecutionState


@dataclass
class Attempt:
    """One Execution: what is known of it."""

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
    lost_at: int | None = None  #: when it hung up without having said how it ended

    def enter(self, state: ExecutionState, at: int | None = None) -> None:
        """Record a state; a final one stays."""
        if self.state not in FINAL_STATES:
            self.state = state
            self.state_timestamps.setdefault(state.value, at or now())


FINAL_STATES = frozenset({ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED})
COUNTS = ("records_in", "records_out", "bytes_in", "bytes_out")
"""What is counted of an attempt."""


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class JobMonitor:
    """Listens to the subtasks of one job; a context manager.

    `on_change` is called, from another thread, after every report.
    """

    def __init__(
        self,
        parallelism: Mapping[int, int],
        host: str,
        on_change: Callable[["JobMonitor"], None] = lambda monitor: None,
    ) -> None:
        self.parallelism = dict(parallelism)
        self.attempts: dict[tuple[int, int, int], Attempt] = {}
        self._lock = threading.Lock()
        self._on_change = on_change
        self._token = secrets.token_hex(16)
        self._host = host
        for vertex, count in parallelism.items():
            for subtask in range(count):
                self._attempt(vertex, subtask, 0).enter(ExecutionState.CREATED)

    def __enter__(self) -> "JobMonitor":
        """Start listening."""
        monitor = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                known = False
                line = b""
                for line in self.rfile:
                    known = monitor._take(line, known)
                    if not known:
                        return
                if known:
                    monitor._hung_up(line)

        self._server = socketserver.ThreadingTCPServer((self._host, 0), Handler, bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.allow_reuse_address = True
        self._server.server_bind()
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    @property
    def address(self) -> ReportAddress:
        """What the subtasks are told."""
        host, port = self._server.server_address[:2]
        return ReportAddress(host=str(host), port=int(port), token=self._token)

    def submitted(self) -> None:
        """The job is with Spark's scheduler."""
        self._all(ExecutionState.SCHEDULED)

    def cancelling(self) -> None:
        """The job is being cancelled."""
        self._all(ExecutionState.CANCELING)

    def ended(self, *, finished: bool) -> None:
        """Spark's job has ended: attempts that said nothing of their end are told by how it ended."""
        with self._lock:
            for attempt in self.attempts.values():
                if attempt.state not in FINAL_STATES:
                    attempt.enter(ExecutionState.FINISHED if finished else ExecutionState.CANCELED)

    def first_failure(self) -> Attempt | None:
        """The attempt that failed first."""
        failed = [attempt for attempt in self.attempts.values() if attempt.failure is not None]
        return min(failed, key=lambda one: one.state_timestamps.get("FAILED", 0), default=None)

    def first_lost(self, seconds: float = 2.0) -> Attempt | None:
        """The attempt that first hung up without a last word; waits up to `seconds` for one that does."""
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                lost = [one for one in self.attempts.values() if one.lost_at is not None]
            if lost or time.monotonic() > until:
                return min(lost, key=lambda one: one.lost_at or 0, default=None)
            time.sleep(0.02)

    def summary(self, vertex: int) -> dict[str, int]:
        """Of a vertex: finished subtasks, attempts, and records and bytes of the attempts that count."""
        with self._lock:
            mine = [attempt for attempt in self.attempts.values() if attempt.vertex == vertex]
            last: dict[int, Attempt] = {}
            for attempt in sorted(mine, key=lambda one: one.attempt_number):
                last[attempt.subtask] = attempt
            counts = {name: sum(getattr(one, name) for one in last.values()) for name in COUNTS}
            done = sum(one.state is ExecutionState.FINISHED for one in last.values())
            return {"finished": done, "attempts": len(mine), **counts}

    def _all(self, state: ExecutionState) -> None:
        with self._lock:
            for attempt in self.attempts.values():
                attempt.enter(state)

    def _attempt(self, vertex: int, subtask: int, number: int) -> Attempt:
        key = (vertex, subtask, number)
        if key not in self.attempts:
            self.attempts[key] = Attempt(vertex, subtask, number)
        return self.attempts[key]

    def _hung_up(self, line: bytes) -> None:
        """The connection whose last report is `line` has ended."""
        message = json.loads(line)
        with self._lock:
            one = self._attempt(message["vertex"], message["subtask"], message["attempt_number"])
            if message.get("state") not in FINAL_STATES:
                one.lost_at = now()

    def _take(self, line: bytes, known: bool) -> bool:
        """Take a report in; False where it does not come from a task of this job."""
        try:
            message: dict[str, Any] = json.loads(line)
        except ValueError:
            return False
        if "token" in message:
            return secrets.compare_digest(str(message["token"]), self._token)
        if not known:
            return False
        with self._lock:
            one = self._attempt(message["vertex"], message["subtask"], message["attempt_number"])
            for name in COUNTS:
                if name in message:
                    setattr(one, name, message[name])
            one.host = message.get("host", one.host)
            if "state" in message:
                if message["state"] == "FAILED":
                    one.failure = {
                        key: message[key]
                        for key in ("error", "traceback", "operator", "record", "cause", "during", "hint")
                        if key in message
                    }
                one.enter(ExecutionState(message["state"]), message["at"])
        self._on_change(self)
        return True
