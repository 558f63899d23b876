"""Start Spark's JVM without its chatter, and explain why if it does not start."""

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.engine.machine.machine_error import hint_of, refusal_in_text
from penstock.engine.machine.stop_on_signals import stopped_by
from penstock.engine.output.people import status_beside_output
from penstock.engine.output.redaction import redact
from penstock.engine.spark.class_archive import (
    ArchivedStart,
    forget_archive,
    remember_written,
    save_archive,
    writes_archive,
)
from penstock.engine.spark.describe_memory_error import mentions_out_of_memory
from penstock.engine.spark.spark_conf import delta_coordinates
from penstock.engine.spark.start_settings import ivy_dir, submit_arguments
from penstock.plans.errors import ConfigurationError, MachineError, NotEnoughMemoryError
from penstock.plans.printable import printable_lines

# Forward the standard error of Spark's JVM to ours: printable, without secrets and stacks.


_STACK = re.compile(rb"^\s+at [\w.$/<>]+\(.*\)\r?\n", re.MULTILINE)
_EVENT = re.compile(rb"(?m)^(?=\d\d:\d\d:\d\d (?:WARN|ERROR|FATAL) )")
_SECONDS_OF_CONSEQUENCES = 10.0
"""Seconds after a refusal of the disk in which failing tasks and commits still log errors because of it."""


class Silence:
    """The time until which events count as consequences of a refusal, or of the JVM's end."""

    until = 0.0


_LONGEST_LINE = 65536
"""Bytes after which a line of the JVM is forwarded without waiting for its end."""


class JvmOutput(threading.Thread):
    """Reads a pipe to its end, into `captured` until `forward` is called, then to standard error."""

    def __init__(self, read_end: int) -> None:
        super().__init__(name="penstock-jvm-stderr", daemon=True)
        self.captured = bytearray()
        self._forwarding = False
        self._lock = threading.Lock()
        self._read_end = read_end

    def forward(self, start: int | None = None) -> None:
        """Forward output from now on, and if `start` is given, the captured output from that byte on."""
        with self._lock:
            if not self._forwarding and start is not None:
                _forward(bytes(self.captured[start:]))
            self._forwarding = True

    def run(self) -> None:
        """Read until the JVM closes its end."""
        line = b""
        while chunk := os.read(self._read_end, 65536):
            with self._lock:
                if not self._forwarding:
                    self.captured += chunk
                    continue
            lines, newline, line = (line + chunk).rpartition(b"\n")
            _forward(lines + newline)
            if len(line) > _LONGEST_LINE:
                _forward(line)
                line = b""
        _forward(line)
        os.close(self._read_end)


def _forward(text: bytes) -> None:
    """Write lines of the JVM to standard error. Log lines repeat foreign names, messages and settings.

    Left out are Java's stacks, and events of a disk that refuses or of memory that ran out, with their
    consequences: the command reports these. If a signal stops the JVM, its logs of unfinished work are
    dropped.
    """
    if stopped_by() is not None:
        return
    text_to_show = printable_lines(redact(_without_refusals(text).decode(errors="replace").expandtabs()))
    with suppress(OSError):
        os.write(2, text_to_show.encode())


def _without_refusals(text: bytes) -> bytes:
    text_to_show = []
    for event in _EVENT.split(_STACK.sub(b"", text)):
        is_event = _EVENT.match(event)
        event_text = event.decode(errors="replace")
        if is_event and (refusal_in_text(event_text) is not None or mentions_out_of_memory(event_text)):
            Silence.until = max(Silence.until, time.monotonic() + _SECONDS_OF_CONSEQUENCES)
        elif not (is_event and time.monotonic() < Silence.until):
            text_to_show.append(event)
    return b"".join(text_to_show)


_POLL_SECONDS = 0.02


# Spawn Spark's JVM, which starts while this process does other work.


@dataclass
class SpawnedJvm:
    """A JVM that is starting, its output on standard error, and the file that will contain its address."""

    process: "subprocess.Popen[bytes]"
    output: JvmOutput
    answer: Path
    files: ExitStack  #: temporary files that it needs until it has started


def spark_submit() -> str:
    """Return the path of spark-submit, of SPARK_HOME, else of PySpark."""
    return os.path.join(_find_spark_home(), "bin", "spark-submit")


def spawn_jvm(settings: Mapping[str, str], environment: Mapping[str, str]) -> SpawnedJvm:
    """Spawn a JVM by spark-submit with Spark's `settings`, none of them on a command line.

    `environment` is added to this process's. The JVM ends when this process does. Raises OSError if it
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
                process_group=0,  # only this process handles Ctrl-C
            )
        finally:
            os.close(write_end)
        return SpawnedJvm(process, output, answer, files.pop_all())


def connect_jvm(spawned: SpawnedJvm) -> Any:
    """Return a py4j gateway to a JVM once it has started; None if it has ended instead."""
    with spawned.files:
        while spawned.process.poll() is None and not spawned.answer.is_file():
            time.sleep(_POLL_SECONDS)
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


def _end_spawned(spawned: SpawnedJvm) -> None:
    """End a JVM without connections."""
    with spawned.files, suppress(OSError, subprocess.TimeoutExpired):
        spawned.process.kill()
        if spawned.process.stdin is not None:
            spawned.process.stdin.close()
        spawned.process.wait(10)


_SECONDS_FOR_AN_ARCHIVE = 120.0
_SECONDS_TO_END = 30.0


class _EarlyJvm:
    """A JVM that was spawned before a session was requested."""

    jvm: SpawnedJvm | None = None


def spawn_early(settings: Mapping[str, str], archived: ArchivedStart | None) -> None:
    """Spawn the JVM that the next `starting_jvm` will connect to, unless `end_early` is called first."""
    _EarlyJvm.jvm = _spawn(settings, archived)


def end_early() -> None:
    """End a JVM that was spawned early and never connected to."""
    early, _EarlyJvm.jvm = _EarlyJvm.jvm, None
    if early is not None:
        _end_spawned(early)


@contextmanager
def starting_jvm(settings: Mapping[str, str], archived: ArchivedStart | None = None) -> Iterator[Any]:
    """Start a JVM with Spark's `settings`; yield its py4j gateway, for a SparkContext made inside the block.

    It starts by `archived`; if that fails, it starts without an archive, and the archive is removed.

    Output of the JVM on standard error before it answers (Ivy's report, notices) is held back, and logs while
    the context is made are dropped if that fails: the exception has the reason. Everything later goes to our
    standard error, printable and without secrets. No setting is on a command line (see submit_arguments).
    Raises ConfigurationError, with the reason from that text, if it does not start, and NotEnoughMemoryError
    if that is the reason.
    """
    early, _EarlyJvm.jvm = _EarlyJvm.jvm, None
    spawned = early or _spawn(settings, archived)
    gateway = _connected(spawned)
    if gateway is None and archived is not None:
        spawned = _spawn(settings, None)  # shows the reason, if it is not the archive
        gateway = _connected(spawned)
        if gateway is not None:
            forget_archive(archived)
    elif archived is not None:
        remember_written(archived)
    if gateway is None:
        raise _explain(spawned.output.captured.decode(errors="replace"))
    output = spawned.output
    try:
        answered = len(output.captured)
        yield gateway
        output.forward(answered)
    finally:
        output.forward()


def _connected(spawned: SpawnedJvm) -> Any:
    try:
        return connect_jvm(spawned)
    except BaseException:  # usually a signal
        _end_spawned(spawned)
        raise


def forget_jvm() -> None:
    """End a JVM whose SparkContext is only partly started, so that the next session starts another one."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    before, Silence.until = Silence.until, math.inf
    with suppress(OSError):
        process.stdin.close()  # it removes its files, and ends
    with suppress(Exception):
        gateway.shutdown()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    Silence.until = before


def end_jvm() -> None:
    """End the JVM that this process has started, if any, and wait for it to remove its local files."""
    end_early()
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.stdin is None:
        return
    Silence.until = math.inf
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        if not writes_archive():
            process.wait(_SECONDS_TO_END)
        elif sys.stderr.isatty():
            with status_beside_output("writing an archive of Spark's classes, once: later jobs start sooner"):
                process.wait(_SECONDS_FOR_AN_ARCHIVE)
        else:
            process.wait(_SECONDS_FOR_AN_ARCHIVE)
    save_archive(complete=process.returncode == 0)


def _spawn(settings: Mapping[str, str], archived: ArchivedStart | None) -> SpawnedJvm:
    return spawn_jvm(settings, {}) if archived is None else spawn_jvm(archived.settings, archived.environment)


def _explain(text: str) -> ConfigurationError | NotEnoughMemoryError | MachineError:
    """Return the error, with a hint, for a JVM that did not start, from its output."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    if (number := refusal_in_text(text)) is not None:
        if "org.apache.ivy." in text:
            known = hint_of(number)
            return MachineError(
                f"Spark cannot store its jars in {ivy_dir()}: {os.strerror(number)}",
                "spark.jars.ivy names the folder" + (f"; {known}" if known else ""),
            )
        reason = next(line.strip() for line in lines if refusal_in_text(line) is not None)
        reason = reason.removeprefix('Exception in thread "main" ').removeprefix("java.io.IOException: ")
        return MachineError(f"Spark's JVM did not start: {redact(reason)}", hint_of(number))
    if "could not determine effective user" in text:
        return ConfigurationError(
            f"Spark's JVM did not start: the user id {os.getuid()} has no account on this machine",
            "Spark needs one: run as a user that /etc/passwd names, or add one for the id (in a container: "
            "to its image)",
        )
    if "unresolved dependency" in text or "UNRESOLVED DEPENDENCIES" in text or "download failed" in text:
        wanted = [line.strip() for line in lines if "unresolved dependency" in line or "FAILED" in line]
        return ConfigurationError(
            f"Spark cannot fetch the Delta jar {delta_coordinates().text}: "
            f"{'; '.join(wanted[:3]) or 'no answer'}",
            "check the network, a proxy or a mirror; without one, copy the jars from another machine's "
            "Ivy folder (`penstock doctor` names it) and set PENSTOCK_JARS to their folder",
        )
    if "Could not reserve enough space" in text or "Cannot allocate memory" in text or "heap size" in text:
        return NotEnoughMemoryError(
            f"Java cannot allocate the requested memory: {lines[0]}",
            "request less with --conf spark.driver.memory=1g",
        )
    return ConfigurationError(
        redact("Spark's JVM did not start; its last lines:\n  " + "\n  ".join(lines[-8:])),
        "see `penstock doctor`",
    )
