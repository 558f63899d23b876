"""Starts Spark's JVM without its chatter, and says what is wrong when it does not start."""

import os
import threading
from contextlib import suppress
from typing import Any

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from engine.spark_conf import delta_coordinates
from plans.errors import ConfigurationError, NotEnoughMemoryError


def start_jvm(conf: SparkConf) -> Any:
    """A py4j gateway to a new JVM with `conf`, to be given to SparkContext.

    What the JVM writes to standard error while it starts (Ivy's report, notices) is kept back, what it writes
    later goes to ours. Raises ConfigurationError, with the reason from that text, if it does not start, and
    NotEnoughMemoryError if that is the reason.
    """
    read_end, write_end = os.pipe()
    starting = _Forwarder(read_end)
    starting.start()
    try:
        return launch_gateway(conf, {"stderr": write_end})  # type: ignore[no-untyped-call]
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
        while chunk := os.read(self._read_end, 65536):
            if self.forward:
                with suppress(OSError):
                    os.write(2, chunk)
            else:
                self.kept += chunk
        os.close(self._read_end)


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
        "Spark's JVM did not start; its last words:\n  " + "\n  ".join(lines[-8:]), "see `penstock doctor`"
    )
