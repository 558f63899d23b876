"""Check that a session does not grow: many small jobs one after the other, then many at once.

    python -m benchmarks.soak_session [--jobs 200] [--at-once 20]

A session of two slots is started in its own state folder. Each job counts words, as a separate client. After
the 10th, 50th, 100th and 200th job a table row lists the session's figures: heap of the JVM after a
collection, resident memory of the JVM and of all Python processes, threads, open files, files of Spark on the
disk, and seconds per job since the row before. Then jobs are submitted at once by `penstock run -d`; they
must finish in the order of their tickets. The exit code is 1 unless they do, and unless the last row equals
the first, within the margins of `GROWTH`.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.process_memory import process_memory
from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.machine.stop_on_signals import processes_of_session
from penstock.engine.run.clusters.session_folder import Session, live_session
from penstock.engine.run.clusters.session_server import connected_to
from penstock.engine.run.runtime.job_records import list_jobs
from penstock.engine.run.runtime.run_context import (
    EnvironmentSettings,
    RunContext,
    SessionSettings,
    use_context,
)

SAMPLED_JOBS = (10, 50, 100, 200)
_MEBIBYTE = 2**20
_SECONDS_BETWEEN_POLLS = 0.02


class Sample(NamedTuple):
    """Figures of a session."""

    heap: float  #: MiB of the JVM's heap in use after a collection
    jvm: float  #: resident MiB of the JVM
    python: float  #: MiB of all Python processes, shared pages divided among them
    threads: int
    files: int  #: open files of all processes
    shuffle: float  #: MiB of Spark's files on the disk
    shuffle_files: int
    log: float  #: MiB


GROWTH = Sample(16.0, 128.0, 32.0, 10, 20, 4.0, 100, 1.0)
"""Margins by which each figure may be larger at the end than after the tenth job."""


def measure(session: Session, scratch: Path) -> Sample:
    """Measure the session, whose processes store their files in `scratch`."""
    pids = sorted(processes_of_session(int(session.owner["pid"])))
    jvm = next(pid for pid in pids if _name(pid) == "java")
    return Sample(
        _heap_after_collection(jvm) / _MEBIBYTE,
        process_memory(jvm, "Rss") / _MEBIBYTE,
        sum(process_memory(pid, "Pss") for pid in pids if pid != jvm) / _MEBIBYTE,
        sum(len(_entries(pid, "task")) for pid in pids),
        sum(len(_entries(pid, "fd")) for pid in pids),
        sum(size for size in _sizes(scratch)) / _MEBIBYTE,
        len(_sizes(scratch)),
        (session.folder / "log").stat().st_size / _MEBIBYTE,
    )


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _entries(pid: int, entry: str) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/{entry}")
    except OSError:  # it has ended
        return []


def _heap_after_collection(jvm: int) -> int:
    """Return bytes in use after full collections; the second one collects objects freed by the first."""
    for _ in range(2):
        subprocess.run(["jcmd", str(jvm), "GC.run"], check=True, capture_output=True)
        time.sleep(2)
    done = subprocess.run(["jcmd", str(jvm), "GC.heap_info"], check=True, capture_output=True, text=True)
    used = re.findall(r"(?:PSYoungGen|ParOldGen|garbage-first heap)\s.*?used (\d+)K", done.stdout)
    return sum(map(int, used)) * 1024


def _sizes(folder: Path) -> list[int]:
    sizes = []
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.path.getsize(os.path.join(where, name)))
            except FileNotFoundError:
                continue
    return sizes


def run_job(session: Session, number: int) -> None:
    """Count words as a client that connects, runs one job and disconnects."""
    from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.operators.common.typeinfo import Types

    context = RunContext(settings=EnvironmentSettings(parallelism=2), spark=SessionSettings(session=session))
    with connected_to(session), use_context(context):
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_collection(["to be or not to be"] * 50, Types.STRING()).flat_map(str.split)
        pairs = words.map(lambda word: (word, number)).key_by(lambda pair: pair[0])
        with pairs.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect(f"soak {number}") as records:
            counts = dict(records)
    if counts != {"to": 100 * number, "be": 100 * number, "or": 50 * number, "not": 50 * number}:
        raise SystemExit(f"job {number}: {counts}")


SCRIPT = """
import sys
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(list(range(100)), Types.LONG()).rebalance()
numbers.map(lambda n: (n % 5, n)).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).print()
env.execute("at once " + sys.argv[1])
"""


def submit_at_once(jobs: int, folder: Path, session: Session) -> bool:
    """Submit this many jobs, each by its own command; return whether all finish in the order of tickets."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "penstock.engine.commands.main", "run", "-d", str(script)]
    commands = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(1, jobs + 1)
    ]
    tickets = dict[str, int]()
    running = True
    while running:
        running = any(command.poll() is None for command in commands)
        for path in (session.folder / "queue").glob("*.*"):
            number, _, job_id = path.name.partition(".")
            tickets[job_id] = int(number)
        time.sleep(_SECONDS_BETWEEN_POLLS)
    ids = [command.communicate()[0].strip() for command in commands]
    for job_id in ids:
        subprocess.run([*command[:3], "wait", job_id], check=False, stdout=subprocess.DEVNULL)
    records = [record for record in list_jobs() if record.job_id in ids]
    finished = sum(record.state == "FINISHED" for record in records)
    records.sort(key=lambda record: record.submitted.started_at + record.milliseconds)
    order = [tickets.get(record.job_id, 0) for record in records]
    in_order = order == sorted(order)
    print(
        f"{jobs} jobs at once: {finished} finished, {'' if in_order else 'not '}in the order of their tickets"
    )
    return finished == jobs == len(set(order)) and in_order


def main() -> int:
    """Start a session, run the jobs, measure, and stop it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--jobs", type=int, default=max(SAMPLED_JOBS))
    options.add_argument("--at-once", type=int, default=20)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        os.environ |= {STATE_DIR: f"{folder}/state", "SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
        command = [sys.executable, "-m", "penstock.engine.commands.main", "session"]
        subprocess.run([*command, "start", "--slots", "2"], check=True, stdout=subprocess.DEVNULL)
        try:
            session = live_session("default")
            sampled_jobs = [*(number for number in SAMPLED_JOBS if number < arguments.jobs), arguments.jobs]
            print("jobs", *Sample._fields, "seconds_per_job", sep="\t", flush=True)
            samples, before, began = [], 0, time.monotonic()
            for number in range(1, arguments.jobs + 1):
                run_job(session, number)
                if number in sampled_jobs:
                    seconds = (time.monotonic() - began) / (number - before)
                    samples.append(measure(session, scratch))
                    print(
                        number,
                        *(round(value, 1) for value in samples[-1]),
                        f"{seconds:.2f}",
                        sep="\t",
                        flush=True,
                    )
                    before, began = number, time.monotonic()
            in_order = submit_at_once(arguments.at_once, Path(folder), session) if arguments.at_once else True
            print("after", *(round(value, 1) for value in measure(session, scratch)), sep="\t")
        finally:
            subprocess.run([*command, "stop"], check=True)
    grown = [
        name
        for name, first, last, margin in zip(Sample._fields, samples[0], samples[-1], GROWTH, strict=True)
        if last - first > margin
    ]
    if grown:
        print(f"grown: {', '.join(grown)}")
    return 1 if grown or not in_order else 0


if __name__ == "__main__":
    sys.exit(main())
