"""What Spark's JVM writes to standard error, on its way to ours: printable, without secrets and stacks."""

import os
import re
import threading
import time
from contextlib import suppress

from penstock.engine.machine.machine_error import refusal_in_text
from penstock.engine.machine.stop_on_signals import stopped_by
from penstock.engine.output.redaction import redact
from penstock.engine.spark.describe_memory_error import is_said_of_memory
from penstock.plans.printable import printable_lines

_STACK = re.compile(rb"^\s+at [\w.$/<>]+\(.*\)\r?\n", re.MULTILINE)
_EVENT = re.compile(rb"(?m)^(?=\d\d:\d\d:\d\d (?:WARN|ERROR|FATAL) )")
_SECONDS_OF_CONSEQUENCES = 10.0
"""After a disk has refused: what tasks and commits log that fail because of it."""


class Silence:
    """Until when events are taken for consequences of a refusal, and of the JVM's end."""

    until = 0.0


_LONGEST_LINE = 65536
"""Bytes of a line of the JVM's after which it is forwarded without its end."""


class JvmOutput(threading.Thread):
    """Reads a pipe to its end, into `kept` until `forward` is called and to standard error afterwards."""

    def __init__(self, read_end: int) -> None:
        super().__init__(name="penstock-jvm-stderr", daemon=True)
        self.kept = bytearray()
        self._forwarding = False
        self._lock = threading.Lock()
        self._read_end = read_end

    def forward(self, start: int | None = None) -> None:
        """From now on forward what comes, and if `start` is given, what was kept from that byte on."""
        with self._lock:
            if not self._forwarding and start is not None:
                _forward(bytes(self.kept[start:]))
            self._forwarding = True

    def run(self) -> None:
        """Read until the JVM closes its end."""
        line = b""
        while chunk := os.read(self._read_end, 65536):
            with self._lock:
                if not self._forwarding:
                    self.kept += chunk
                    continue
            lines, newline, line = (line + chunk).rpartition(b"\n")
            _forward(lines + newline)
            if len(line) > _LONGEST_LINE:
                _forward(line)
                line = b""
        _forward(line)
        os.close(self._read_end)


def _forward(text: bytes) -> None:
    """Write lines of the JVM's to standard error. Log lines repeat foreign names, messages and settings.

    Left out are Java's stacks, and events of a disk that refuses or of memory that ran out, with what follows
    from them: the command says that. A JVM that a signal stops logs what it cannot finish: that is no news.
    """
    if stopped_by() is not None:
        return
    shown = printable_lines(redact(_without_refusals(text).decode(errors="replace").expandtabs()))
    with suppress(OSError):
        os.write(2, shown.encode())


def _without_refusals(text: bytes) -> bytes:
    shown = []
    for event in _EVENT.split(_STACK.sub(b"", text)):
        is_event = _EVENT.match(event)
        said = event.decode(errors="replace")
        if is_event and (refusal_in_text(said) is not None or is_said_of_memory(said)):
            Silence.until = max(Silence.until, time.monotonic() + _SECONDS_OF_CONSEQUENCES)
        elif not (is_event and time.monotonic() < Silence.until):
            shown.append(event)
    return b"".join(shown)
