"""A Spark standalone cluster on loopback, from the pip package: a master and workers as processes.

Each worker has an address of its own, 127.0.0.1, 127.0.0.2 and so on, and is a machine of its own to Spark:
copies of blocks go to others, rows between them over the network, and slow tasks are repeated elsewhere.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent


class Cluster:
    """Its master's URL and the processes of its workers."""

    def __init__(
        self, url: str, folder: Path, cores: int, memory: str, environment: Mapping[str, str]
    ) -> None:
        self.url, self.workers = url, list[subprocess.Popen[bytes]]()
        self._folder, self._cores, self._memory = folder, cores, memory
        self._environment = environment

    def start_worker(self) -> None:
        """Start one more worker; it may not have registered yet when this returns."""
        number = len(self.workers)
        self.workers.append(
            _start(
                self._folder,
                self._folder / f"worker{number}.log",
                f"127.0.0.{number + 1}",
                self._environment,
                "org.apache.spark.deploy.worker.Worker",
                *("--cores", str(self._cores), "--memory", self._memory, "--webui-port", "0"),
                *("--work-dir", str(self._folder / f"work{number}"), self.url),
            )
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, without a word."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()


@contextmanager
def spark_cluster(
    folder: Path,
    workers: int,
    cores: int,
    memory: str = "1g",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A running cluster of `workers` workers, each with `cores` and `memory`; it ends with the block.

    `environment`: variables of its processes beside Spark's; default: those of this process.
    """
    master_log = folder / "master.log"
    own = dict(os.environ if environment is None else environment)
    master_command = ("org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0")
    master = _start(folder, master_log, "127.0.0.1", own, *master_command)
    cluster = Cluster("", folder, cores, memory, own)
    try:
        cluster.url = _wait_for(master_log, r"Starting Spark master at (spark://\S+)")
        for _ in range(workers):
            cluster.start_worker()
        for number in range(workers):
            _wait_for(folder / f"worker{number}.log", r"(Successfully registered with master)")
        yield cluster
    finally:
        for process in (master, *cluster.workers):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _start(
    folder: Path, log: Path, address: str, environment: Mapping[str, str], *command: str
) -> "subprocess.Popen[bytes]":
    # its own conf folder: Spark's default logging, at info, tells the master's port
    environment = {
        **environment,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": address,
        "SPARK_CONF_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }
    (folder / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.stderr.type = Console\nappender.stderr.name = stderr\nappender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\nappender.stderr.layout.pattern = %m%n\n"
    )
    with log.open("wb") as file:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), command[0], "--host", address, *command[1:]],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(log: Path, pattern: str) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group(1)
        time.sleep(0.1)
    raise TimeoutError(f"{log}: {pattern!r} did not come: {log.read_text(errors='replace')[-2000:]}")
