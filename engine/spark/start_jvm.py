"""Starts Spark's JVM without its chatter, and says what is wrong when it does not start."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from penstock.engine.machine.machine_error import hint_of, refusal_in_text
from penstock.engine.output.people import status_beside_output
from penstock.engine.output.redaction import redact
from penstock.engine.spark.class_archive import (
    ArchivedStart,
    forget_archive,
    keep_archive,
    remember_written,
    writes_archive,
)
from penstock.engine.spark.spark_conf import delta_coordinates
from penstock.engine.spark.spawn_jvm import Silence, SpawnedJvm, connect_jvm, end_spawned, spawn_jvm
from penstock.engine.spark.start_settings import ivy_dir
from penstock.plans.errors import ConfigurationError, MachineError, NotEnoughMemoryError

_SECONDS_FOR_AN_ARCHIVE = 120.0


class _Early:
    """A JVM that was spawned before anybody asked for a session."""

    jvm: SpawnedJvm | None = None


def spawn_early(settings: Mapping[str, str], archived: ArchivedStart | None) -> None:
    """Spawn the JVM that the next `starting_jvm` will connect with, unless `end_early` comes before."""
    _Early.jvm = _spawn(settings, archived)


def end_early() -> None:
    """End a JVM that was spawned early and that nobody has connected with."""
    early, _Early.jvm = _Early.jvm, None
    if early is not None:
        end_spawned(early)


@contextmanager
def starting_jvm(settings: Mapping[str, str], archived: ArchivedStart | None = None) -> Iterator[Any]:
    """A py4j gateway to a new JVM with Spark's `settings`, for a SparkContext that is made inside.

    It starts as `archived` says; if it does not, it starts without an archive, and the archive is removed.

    What the JVM writes to standard error before it answers (Ivy's report, notices) is kept back, and what it
    logs while the context is made is dropped if that fails: the exception says why. Everything later goes to
    our standard error, printable and without secrets. No setting is on a command line (see submit_settings).
    Raises ConfigurationError, with the reason from that text, if it does not start, and NotEnoughMemoryError
    if that is the reason.
    """
    early, _Early.jvm = _Early.jvm, None
    spawned = early or _spawn(settings, archived)
    gateway = _connected(spawned)
    if gateway is None and archived is not None:
        spawned = _spawn(settings, None)  # which says what is wrong, if it is not the archive
        gateway = _connected(spawned)
        if gateway is not None:
            forget_archive(archived)
    elif archived is not None:
        remember_written(archived)
    if gateway is None:
        raise _explain(spawned.output.kept.decode(errors="replace"))
    output = spawned.output
    try:
        answered = len(output.kept)
        yield gateway
        output.forward(answered)
    finally:
        output.forward()


def _connected(spawned: SpawnedJvm) -> Any:
    try:
        return connect_jvm(spawned)
    except BaseException:  # a signal, mostly
        end_spawned(spawned)
        raise


def forget_jvm() -> None:
    """End the JVM whose SparkContext has come up half, so that the next session starts another one."""
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


def end_jvm(seconds: float = 30.0) -> None:
    """End the JVM that this process has started, if any, and wait for it: it removes its local files."""
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
            process.wait(seconds)
        elif sys.stderr.isatty():
            with status_beside_output("writing an archive of Spark's classes, once: later jobs start sooner"):
                process.wait(_SECONDS_FOR_AN_ARCHIVE)
        else:
            process.wait(_SECONDS_FOR_AN_ARCHIVE)
    keep_archive(complete=process.returncode == 0)


def _spawn(settings: Mapping[str, str], archived: ArchivedStart | None) -> SpawnedJvm:
    return spawn_jvm(settings, {}) if archived is None else spawn_jvm(archived.settings, archived.environment)


def _explain(text: str) -> ConfigurationError | NotEnoughMemoryError | MachineError:
    """The error, with a hint, for a JVM that did not start, from what it printed."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    if (number := refusal_in_text(text)) is not None:
        if "org.apache.ivy." in text:
            known = hint_of(number)
            return MachineError(
                f"Spark cannot keep its jars in {ivy_dir()}: {os.strerror(number)}",
                "spark.jars.ivy names the folder" + (f"; {known}" if known else ""),
            )
        said = next(line.strip() for line in lines if refusal_in_text(line) is not None)
        said = said.removeprefix('Exception in thread "main" ').removeprefix("java.io.IOException: ")
        return MachineError(f"Spark's JVM did not start: {redact(said)}", hint_of(number))
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
