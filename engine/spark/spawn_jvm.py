"""Spawns Spark's JVM, which comes up while this process does something else."""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.engine.spark.forward_jvm_output import JvmOutput
from penstock.engine.spark.submit_settings import submit_arguments

_SECONDS_BETWEEN_LOOKS = 0.02


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
