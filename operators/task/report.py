"""Reports of a subtask to the driver: states, records, failures, as JSON lines over a socket.

Reports inform; results never depend on them. A driver that cannot be reached costs the reports, not the job.

Source: org.apache.flink.runtime.taskmanager.TaskExecutionState and
TaskManagerActions.updateTaskExecutionState, for what is told.
"""

import json
import socket
import time
from typing import Any

from penstock.operators.task.task_spec import ReportAddress

#: Seconds between two reports of how many records went by.
PROGRESS_SECONDS = 0.5

LONGEST_REPORT = 1 << 18
"""Bytes of a line that the driver reads; texts of a longer report are cut."""


class Reporter:
    """One attempt's line to the driver."""

    def __init__(self, address: ReportAddress | None, vertex: int, subtask: int, attempt_number: int) -> None:
        self._who = {"vertex": vertex, "subtask": subtask, "attempt_number": attempt_number}
        self._socket: socket.socket | None = None
        self._last_progress = time.monotonic()
        if address is not None:
            try:
                self._socket = socket.create_connection((address.host, address.port), timeout=5)
            except OSError:
                return
            self._send({"token": address.token})

    def state(self, state: str, **details: Any) -> None:
        """The attempt has entered an ExecutionState."""
        self._send({"state": state, "at": time.time_ns() // 1_000_000, **details})

    def progress(self, records_in: int, records_out: int) -> None:
        """Report the number of records so far; sent at most every PROGRESS_SECONDS."""
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_SECONDS:
            self._last_progress = now
            self._send({"records_in": records_in, "records_out": records_out})

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: dict[str, Any]) -> None:
        if self._socket is not None:
            try:
                self._socket.sendall(_line({**self._who, **message}) + b"\n")
            except OSError:
                self.close()


def _line(message: dict[str, Any]) -> bytes:
    """`message` as JSON of LONGEST_REPORT bytes at most: long texts lose their middle."""
    line, longest = json.dumps(message), LONGEST_REPORT // 2
    while len(line) > LONGEST_REPORT:
        line = json.dumps({key: _cut(value, longest) for key, value in message.items()})
        longest //= 2
    return line.encode()


def _cut(value: Any, longest: int) -> Any:
    if not isinstance(value, str) or len(value) <= longest:
        return value
    return f"{value[: longest // 2]} … {value[-(longest // 2) :]}"
