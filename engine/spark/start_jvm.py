"""Starts Spark's JVM without its chatter, and says what is wrong when it does not start."""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from engine.machine.stop_on_signals import stopped_by
from engine.output.redaction import redact
from engine.spark.spark_conf import delta_coordinates
from engine.spark.submit_settings import submit_settings
from plans.errors import ConfigurationError, NotEnoughMemoryError
from plans.printable import printable_lines

_LONGEST_LINE = 65536
"""Bytes of a line of the JVM's after which it is forwarded without its end."""


def start_jvm(settings: Mapping[str, str]) -> Any:
    """A py4j gateway to a new JVM with Spark's `settings`, to be given to SparkContext.

    What the JVM writes to standard error while it starts (Ivy's report, notices) is kept back; what it writes
    later goes to ours, printable and without secrets. No setting is on a command line (see submit_settings).
    Raises ConfigurationError, with the reason from that text, if it does not start, and NotEnoughMemoryError
    if that is the reason.
    """
    read_end, write_end = os.pipe()
    starting = _Forwarder(read_end)
    starting.start()
    try:
        with submit_settings(settings):
            return launch_gateway(None, {"stderr": write_end})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        os.close(write_end)
        write_end = -1
        starting.join(timeout=5)
        raise _explain(starting.kept.decode(errors="replace")) from error
    finally:
        starting.forward = True
        if write_end >= 0:
            os.close(write_end)


class _Forwarder(threading.Thread):
    """Reads a pipe to its end, into `kept` until `forward` is set and to standard error afterwards."""

    def __init__(self, read_end: int) -> None:
        super().__init__(name="penstock-jvm-stderr", daemon=True)
        self.kept = bytearray()
        self.forward = False
        self._read_end = read_end

    def run(self) -> None:
        line = b""
        while chunk := os.read(self._read_end, 65536):
            if self.forward:
                lines, newline, line = (line + chunk).rpartition(b"\n")
                _forward(lines + newline)
                if len(line) > _LONGEST_LINE:
                    _forward(line)
                    line = b""
            else:
                self.kept += chunk
        _forward(line)
        os.close(self._read_end)


def _forward(text: bytes) -> None:
    """Write lines of the JVM's to standard error. Log lines repeat foreign names, messages and settings.

    A JVM that a signal stops logs what it cannot finish: that is no news.
    """
    if stopped_by() is not None:
        return
    shown = printable_lines(redact(text.decode(errors="replace").expandtabs()))
    with suppress(OSError):
        os.write(2, shown.encode())


def _explain(text: str) -> ConfigurationError | NotEnoughMemoryError:
    """What a JVM that did not start has said, as an error with a hint."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
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
