"""A topology planned by joins on a standalone cluster of this machine: seconds, and what each worker takes.

    python -m benchmarks.plan_on_cluster INPUT --out STORE [--workers 4] [--executor-memory 900m]
        [--kill-after SECONDS] [--conf KEY=VALUE ...]

Each worker has one core and one executor. Its peak is the memory of the executor and its Python processes,
shared pages divided, looked at every second. `--kill-after` kills a worker, executor and all, after that time
and starts another one. The exit code is that of `penstock plan`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process_memory import process_memory
from engine.machine.end_processes import processes_of_session
from tests.runtime.spark_cluster import Cluster, spark_cluster

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
        settings = [f"spark.executor.memory={asked.executor_memory}", *asked.conf]
        command = ["penstock", "plan", asked.input, "--out", asked.out, "--planner", "joins"]
        command += ["--master", cluster.url, *(word for value in settings for word in ("--conf", value))]
        started = time.monotonic()
        planning = subprocess.Popen([sys.executable, "-m", "engine.commands.main", *command[1:]])
        peaks = _watch(planning, cluster, asked.kill_after)
        print(f"{time.monotonic() - started:.0f} s; exit code {planning.returncode}")
        for number, (peak, of_java) in enumerate(peaks):
            of_python = (peak - of_java) / 2**30
            print(f"worker {number}: {peak / 2**30:.2f} GiB, {of_python:.2f} of it Python's")
        return planning.returncode


def _watch(
    planning: "subprocess.Popen[bytes]", cluster: Cluster, kill_after: float | None
) -> Sequence[tuple[int, int]]:
    """The peak of each worker in bytes, and Java's share of it, in the order in which they started."""
    peaks: list[tuple[int, int]] = []
    end = None if kill_after is None else time.monotonic() + kill_after
    while planning.poll() is None:
        if end is not None and time.monotonic() > end:
            cluster.kill_worker(0)
            cluster.start_worker()
            end = None
        for number, worker in enumerate(cluster.workers):
            peaks.extend([(0, 0)] * (number + 1 - len(peaks)))
            taken = {pid: process_memory(pid, "Pss") for pid in processes_of_session(worker.pid)}
            taken.pop(worker.pid, None)
            of_java = sum(size for pid, size in taken.items() if _is_java(pid))
            peaks[number] = max(peaks[number], (sum(taken.values()), of_java))
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return peaks


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip() == "java"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
