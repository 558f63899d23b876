"""A topology planned by joins on a standalone cluster of this machine: seconds, and what each worker takes.

    python -m benchmarks.plan_on_cluster INPUT --out STORE [--workers 4] [--executor-memory 900m]
        [--kill-after SECONDS] [--conf KEY=VALUE ...]

Each worker has one core and one executor. Its peak is the memory of the executor and its Python processes,
shared pages divided, looked at every second; the highest while it did not walk, too: walks are the tasks of
stages that have no other one. `--kill-after` kills a worker, executor and all, after that time and starts
another one. The exit code is that of `penstock plan`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.event_log import events
from benchmarks.process_memory import process_memory
from penstock.engine.machine.stop_on_signals import processes_of_session
from tests.engine.run.runtime.spark_cluster import Cluster, spark_cluster

_SECONDS_BETWEEN_LOOKS = 1.0


def main() -> int:
    """Plan the input, and print what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input")
    parser.add_argument("--out", required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--executor-memory", default="900m")
    parser.add_argument("--kill-after", type=float)
    parser.add_argument("--conf", action="append", default=[])
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-cluster-") as folder,
        spark_cluster(Path(folder), asked.workers, cores=1, memory=asked.executor_memory) as cluster,
    ):
        log = Path(folder) / "events"
        log.mkdir()
        settings = [
            f"spark.executor.memory={asked.executor_memory}",
            "spark.eventLog.enabled=true",
            f"spark.eventLog.dir={log.as_uri()}",
            "spark.eventLog.compress=false",
            *asked.conf,
        ]
        command = ["penstock", "plan", asked.input, "--out", asked.out, "--planner", "joins"]
        command += ["--master", cluster.url, *(word for value in settings for word in ("--conf", value))]
        started = time.monotonic()
        planning = subprocess.Popen([sys.executable, "-m", "penstock.engine.commands.main", *command[1:]])
        looks = _watch(planning, cluster, asked.kill_after)
        print(f"{time.monotonic() - started:.0f} s; exit code {planning.returncode}")
        _print(looks, walks_of(events(log)))
        return planning.returncode


class Look(NamedTuple):
    """What a worker took at a time (seconds since the epoch): bytes, and those of Java among them."""

    worker: int
    executor: str
    time: float
    taken: int
    of_java: int


class Walk(NamedTuple):
    """When an executor ran the only task of a stage, in seconds since the epoch."""

    executor: str
    start: float
    end: float


def _print(looks: Sequence[Look], walks: Sequence[Walk]) -> None:
    for number in sorted({look.worker for look in looks}):
        own = [look for look in looks if look.worker == number]
        most = max(own, key=lambda look: look.taken)
        said = f"worker {number}: {_gib(most.taken)}, {_gib(most.taken - most.of_java)} of it Python's"
        if any(is_walking(look, walks) for look in own):
            most = max((look for look in own if not is_walking(look, walks)), key=lambda look: look.taken)
            said += f"; while it did not walk {_gib(most.taken)}"
        print(said)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def is_walking(look: Look, walks: Sequence[Walk]) -> bool:
    """Whether the worker's executor walked when it was looked at."""
    return any(walk.executor == look.executor and walk.start <= look.time <= walk.end for walk in walks)


def walks_of(events: Iterable[dict[str, Any]]) -> list[Walk]:
    """The walks of an application's event log that took at least as long as there is between two looks."""
    tasks: dict[int, list[Walk]] = {}
    for event in events:
        if event["Event"] == "SparkListenerTaskEnd":
            info = event["Task Info"]
            task = Walk(info["Executor ID"], info["Launch Time"] / 1000, info["Finish Time"] / 1000)
            tasks.setdefault(event["Stage ID"], []).append(task)
    alone = [of_stage[0] for of_stage in tasks.values() if len(of_stage) == 1]
    return [walk for walk in alone if walk.end - walk.start >= _SECONDS_BETWEEN_LOOKS]


def _watch(planning: "subprocess.Popen[bytes]", cluster: Cluster, kill_after: float | None) -> Sequence[Look]:
    looks: list[Look] = []
    end = None if kill_after is None else time.monotonic() + kill_after
    while planning.poll() is None:
        if end is not None and time.monotonic() > end:
            cluster.kill_worker(0)
            cluster.start_worker()
            end = None
        for number, worker in enumerate(cluster.workers):
            taken = {pid: process_memory(pid, "Pss") for pid in processes_of_session(worker.pid)}
            taken.pop(worker.pid, None)
            executors = {pid: _executor(pid) for pid in taken}
            of_java = sum(size for pid, size in taken.items() if executors[pid])
            names = [name for name in executors.values() if name]
            name = names[0] if names else ""
            looks.append(Look(number, name, time.time(), sum(taken.values()), of_java))
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return looks


def _executor(pid: int) -> str | None:
    """The number of the executor that this process is; None if it is not one."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    return words[words.index("--executor-id") + 1] if "--executor-id" in words else None


if __name__ == "__main__":
    sys.exit(main())
