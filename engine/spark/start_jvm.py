"""Starts Spark's JVM without its chatter, and says what is wrong when it does not start."""

import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from engine.machine.machine_error import hint_of, refusal_in_text
from engine.machine.stop_on_signals import stopped_by
from engine.output.redaction import redact
from engine.spark.describe_memory_error import is_said_of_memory
from engine.spark.spark_conf import delta_coordinates
from engine.spark.submit_settings import submit_settings
from plans.errors import ConfigurationError, MachineError, NotEnoughMemoryError
from plans.printable import printable_lines

_STACK = re.compile(rb"^\s+at [\w.$/<>]+\(.*\)\r?\n", re.MULTILINE)
_EVENT = re.compile(rb"(?m)^(?=\d\d:\d\d:\d\d (?:WARN|ERROR|FATAL) )")
_SECONDS_OF_CONSEQUENCES = 10.0
"""After a disk has refused: what tasks and commits log that fail because of it."""


class _Silence:
    """Until when events are taken for consequences of a refusal, and of the JVM's end."""

    until = 0.0


_LONGEST_LINE = 65536
"""Bytes of a line of the JVM's after which it is forwarded without its end."""


@contextmanager
def starting_jvm(settings: Mapping[str, str]) -> Iterator[Any]:
    """A py4j gateway to a new JVM with Spark's `settings`, for a SparkContext that is made inside.

    What the JVM writes to standard error before it answers (Ivy's report, notices) is kept back, and what it
    logs while the context is made is dropped if that fails: the exception says why. Everything later goes to
    our standard error, printable and without secrets. No setting is on a command line (see submit_settings).
    Raises ConfigurationError, with the reason from that text, if it does not start, and NotEnoughMemoryError
    if that is the reason.
    """
    read_end, write_end = os.pipe()
    starting = _Forwarder(read_end)
    starting.start()
    try:
        gateway = _launch(settings, starting, write_end)
        answered = len(starting.kept)
        yield gateway
        starting.forward(answered)
    finally:
        starting.forward()


def end_jvm(seconds: float = 30.0) -> None:
    """End the JVM that this process has started, if any, and wait for it: it removes its local files."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.stdin is None:
        return
    _Silence.until = math.inf
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _launch(settings: Mapping[str, str], starting: "_Forwarder", write_end: int) -> Any:
    try:
        with submit_settings(settings):
            return launch_gateway(None, {"stderr": write_end})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        os.close(write_end)
        write_end = -1
        starting.join(timeout=5)
        raise _explain(starting.kept.decode(errors="replace")) from error
    finally:
        if write_end >= 0:
            os.close(write_end)


class _Forwarder(threading.Thread):
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
            _Silence.until = max(_Silence.until, time.monotonic() + _SECONDS_OF_CONSEQUENCES)
        elif not (is_event and time.monotonic() < _Silence.until):
            shown.append(event)
    return b"".join(shown)


def _explain(text: str) -> ConfigurationError | NotEnoughMemoryError | MachineError:
    """What a JVM that did not start has said, as an error with a hint."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    if (number := refusal_in_text(text)) is not None:
        said = next(line.strip() for line in lines if refusal_in_text(line) is not None)
        return MachineError(f"Spark's JVM did not start: {redact(said)}", hint_of(number))
    if "unresolved dependency" in text or "UNRESOLVED DEPENDENCIES" in text or "download failed" in text:
        wanted = [line.strip() for line in lines if "unresolved dependency" in line or "FAILED" in line]
        return ConfigurationError(
            f"Spark cannot fetch the Delta jar {delta_coordinates().text}: "
            f"{'; '.join(wanted[:3]) or 'no answer'}",
            "is the network, a proxy or a mirror missing? Without one, copy the jars from another machine's "
            "Ivy folder (`penstock doctor` names it) and set PENSTOCK_JARS to their folder",
        )
    if "Could not reserve enough space" in text or "Cannot allocate memory" in text or "heap size" in text:
        return NotEnoughMemoryError(
            f"Java cannot have the memory asked for: {lines[0]}",
            "ask for less by --conf spark.driver.memory=1g",
        )
    return ConfigurationError(
        redact("Spark's JVM did not start; its last words:\n  " + "\n  ".join(lines[-8:])),
        "see `penstock doctor`",
    )
