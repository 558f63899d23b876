"""Plan a giant on a standalone cluster of this machine, and print seconds, CPU seconds and memory.

    python -m benchmarks.plan_on_cluster INPUT --out STORE [--workers 4] [--executor-memory 900m]
        [--kill-after SECONDS] [--conf KEY=VALUE ...] [--compare]

Each worker has one core and one executor. Its peak is the memory of the executor and its Python processes,
with shared pages divided, sampled every second. A second peak excludes walks: they are tasks that are alone
in their stage. CPU seconds are those of the driver and of the workers' processes, up to the last sample of
each. `--kill-after` kills a worker with its executor after that time and starts another one. `--compare`
plans the same in one process, and lists the tables that differ. It ends with the exit code of `penstock
plan`, or with 1 if tables differ.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.event_log import events
from benchmarks.process_memory import process_memory
from penstock.engine.machine.stop_on_signals import process_tree, processes_of_session
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from tests.engine.run.runtime.spark_cluster import Cluster, spark_cluster
from tests.plans.blocks.test_stages import is_equal

_SECONDS_BETWEEN_SAMPLES = 1.0


def main() -> int:
    """Plan the input, and print what it takes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input")
    parser.add_argument("--out", required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--executor-memory", default="900m")
    parser.add_argument("--kill-after", type=float)
    parser.add_argument("--conf", action="append", default=[])
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="penstock-cluster-") as folder,
        spark_cluster(Path(folder), options.workers, cores=1, memory=options.executor_memory) as cluster,
    ):
        log = Path(folder) / "events"
        log.mkdir()
        settings = [
            f"spark.executor.memory={options.executor_memory}",
            "spark.eventLog.enabled=true",
            f"spark.eventLog.dir={log.as_uri()}",
            "spark.eventLog.compress=false",
            *options.conf,
        ]
        command = [*_PENSTOCK, "plan", options.input, "--out", options.out, "--planner", "blocks"]
        command += ["--master", cluster.url, *(word for value in settings for word in ("--conf", value))]
        started = time.monotonic()
        planning = subprocess.Popen(command)
        samples, cpu_seconds = _watch(planning, cluster, options.kill_after)
        seconds = time.monotonic() - started
        print(f"{seconds:.0f} s, {cpu_seconds:.0f} CPU s; exit code {planning.returncode}")
        _print(samples, walks_of(events(log)))
        if planning.returncode or not options.compare:
            return planning.returncode
        return _compare(options.input, options.out, Path(folder) / "of-one-process")


_PENSTOCK = (sys.executable, "-m", "penstock.engine.commands.main")


def _compare(given: str, store: str, other: Path) -> int:
    """Plan in one process, print what that takes, and which tables differ; 1 if some do."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*_PENSTOCK, "plan", given, "--out", str(other), "--planner", "process"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"one process: {time.monotonic() - started:.0f} s, {cpu_seconds:.0f} CPU s")
    found, expected = (read_plan(DeltaRsTables(str(place))) for place in (store, other))
    different = [name for name, rows in expected.items() if not is_equal(found.get(name), rows, name)]
    print(f"different tables: {', '.join(different) or 'none'}")
    return 1 if different else 0


class Sample(NamedTuple):
    """The memory of a worker at a time (seconds since the epoch): bytes, and the part of Java."""

    worker: int
    executor: str
    time: float
    bytes_taken: int
    java_bytes: int


class Walk(NamedTuple):
    """The time in which an executor ran the only task of a stage, in seconds since the epoch."""

    executor: str
    start: float
    end: float


def _print(samples: Sequence[Sample], walks: Sequence[Walk]) -> None:
    for number in sorted({sample.worker for sample in samples}):
        own = [sample for sample in samples if sample.worker == number]
        most = max(own, key=lambda sample: sample.bytes_taken)
        python = most.bytes_taken - most.java_bytes
        line = f"worker {number}: {_gib(most.bytes_taken)}, {_gib(python)} of it Python's"
        if any(is_walking(sample, walks) for sample in own):
            most = max(
                (sample for sample in own if not is_walking(sample, walks)),
                key=lambda sample: sample.bytes_taken,
            )
            line += f"; outside of walks {_gib(most.bytes_taken)}"
        print(line)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def is_walking(sample: Sample, walks: Sequence[Walk]) -> bool:
    """Whether the worker's executor was walking at the time of the sample."""
    return any(walk.executor == sample.executor and walk.start <= sample.time <= walk.end for walk in walks)


def walks_of(events: Iterable[dict[str, Any]]) -> list[Walk]:
    """Return the walks of an application's event log that took at least the time between two samples."""
    tasks: dict[int, list[Walk]] = {}
    for event in events:
        if event["Event"] == "SparkListenerTaskEnd":
            info = event["Task Info"]
            task = Walk(info["Executor ID"], info["Launch Time"] / 1000, info["Finish Time"] / 1000)
            tasks.setdefault(event["Stage ID"], []).append(task)
    alone = [stage_tasks[0] for stage_tasks in tasks.values() if len(stage_tasks) == 1]
    return [walk for walk in alone if walk.end - walk.start >= _SECONDS_BETWEEN_SAMPLES]


def _watch(
    planning: "subprocess.Popen[bytes]", cluster: Cluster, kill_after: float | None
) -> tuple[Sequence[Sample], float]:
    """Samples of the workers until the command ends, and its CPU seconds and theirs."""
    samples: list[Sample] = []
    ticks: dict[int, int] = {}
    end = None if kill_after is None else time.monotonic() + kill_after
    while planning.poll() is None:
        if end is not None and time.monotonic() > end:
            cluster.kill_worker(0)
            cluster.start_worker()
            end = None
        ticks |= {pid: _ticks(pid) or ticks.get(pid, 0) for pid in process_tree(planning.pid)}
        for number, worker in enumerate(cluster.workers):
            own = processes_of_session(worker.pid)
            ticks |= {pid: _ticks(pid) or ticks.get(pid, 0) for pid in own}
            bytes_taken = {pid: process_memory(pid, "Pss") for pid in own}
            bytes_taken.pop(worker.pid, None)
            executors = {pid: _executor(pid) for pid in bytes_taken}
            java_bytes = sum(size for pid, size in bytes_taken.items() if executors[pid])
            names = [name for name in executors.values() if name]
            name = names[0] if names else ""
            samples.append(Sample(number, name, time.time(), sum(bytes_taken.values()), java_bytes))
        time.sleep(_SECONDS_BETWEEN_SAMPLES)
    return samples, sum(ticks.values()) / os.sysconf("SC_CLK_TCK")


def _ticks(pid: int) -> int:
    """Return the CPU time of a process, in ticks of the clock; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _executor(pid: int) -> str | None:
    """Return the number of the executor that this process is; None if it is not one."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    return words[words.index("--executor-id") + 1] if "--executor-id" in words else None


if __name__ == "__main__":
    sys.exit(main())
