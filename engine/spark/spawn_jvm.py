"""Spawns Spark's JVM, which comes up while this process does something else."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.engine.machine.machine_error import refusal_in_text
from penstock.engine.machine.stop_on_signals import stopped_by
from penstock.engine.output.redaction import redact
from penstock.engine.spark.describe_memory_error import is_said_of_memory
from penstock.engine.spark.submit_settings import submit_arguments
from penstock.plans.printable import printable_lines

# Forwards the standard error of Spark's JVM to ours: printable, without secrets and stacks.


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


_SECONDS_BETWEEN_LOOKS = 0.02


# The JVM itself.


@dataclass
class SpawnedJvm:
    """A JVM that is coming up, what it writes to standard error, and where it will say how to reach it."""

    process: "subprocess.Popen[bytes]"
    output: JvmOutput
    answer: Path
    files: ExitStack  #: that it needs until it has come up


def spark_submit() -> str:
    """The path of Spark's own command: of SPARK_HOME, else of PySpark."""
    return os.path.join(_find_spark_home(), "bin", "spark-submit")


def spawn_jvm(settings: Mapping[str, str], environment: Mapping[str, str]) -> SpawnedJvm:
    """A JVM of spark-submit's with Spark's `settings`, none of them on a command line.

    `environment` is added to that of this process. The JVM ends when this process does. OSError where it
    cannot be started.
    """
    with ExitStack() as files:
        arguments = files.enter_context(submit_arguments(settings))
        folder = Path(tempfile.mkdtemp())
        files.callback(shutil.rmtree, folder, ignore_errors=True)
        answer = folder / "gateway"
        own = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer), **environment}
        read_end, write_end = os.pipe()
        output = JvmOutput(read_end)
        output.start()
        try:
            process = subprocess.Popen(
                [spark_submit(), *shlex.split(arguments)],
                stdin=subprocess.PIPE,
                stderr=write_end,
                env={**os.environ, **own},
                process_group=0,  # Ctrl-C is this process's to handle
            )
        finally:
            os.close(write_end)
        return SpawnedJvm(process, output, answer, files.pop_all())


def connect_jvm(spawned: SpawnedJvm) -> Any:
    """A py4j gateway to a JVM that has come up; None if it has ended instead."""
    with spawned.files:
        while spawned.process.poll() is None and not spawned.answer.is_file():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if not spawned.answer.is_file():
            spawned.output.join(timeout=5)
            return None
        with open(spawned.answer, "rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    where = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(where)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in where:
            del os.environ[name]
    gateway.proc = spawned.process
    return gateway


def end_spawned(spawned: SpawnedJvm) -> None:
    """End a JVM that nobody has connected with."""
    with spawned.files, suppress(OSError, subprocess.TimeoutExpired):
        spawned.process.kill()
        if spawned.process.stdin is not None:
            spawned.process.stdin.close()
        spawned.process.wait(10)
