"""Check that every row arrives once if drivers are killed: kill -9 of `penstock run`, then recovery.

    python -m benchmarks.kill_runs [--points N] [--seed N]

The job writes rows 0 to 99 into files and into a Delta table. Half of the points are random moments of the
run; half are steps of the commit: the driver ends by SIGKILL right before a file is renamed, a record of the
journal is written or forced to the disk, the transaction is made, a folder is removed. After half of the
kills `penstock recover` follows, and the job is run again if nothing of it is visible; after the others the
job is run again at once. A table lists for each point the visible rows after the kill and at the end; the
exit code is 1 unless each row exists once.

Each run that is killed has its own driver. Drivers start Spark ahead, while earlier points are processed, and
moments count from the beginning of the run: while Spark starts, a run has written nothing. Runs that follow
share one driver.
"""

import argparse
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

ROWS = 100
DRIVERS_AHEAD = 2

Driver = subprocess.Popen[bytes]

SCRIPT = """
import sys
from pyflink.common import Types, WatermarkStrategy
from pyflink.common import Row
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from penstock.operators.connectors.commit_delta import DeltaSink
from penstock.operators.connectors.staged_files import TextSink

ROWS = Types.ROW_NAMED(["n"], [Types.LONG()])
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "n", Types.LONG())
numbers.sink_to(TextSink(sys.argv[1] + "/files"))
numbers.map(lambda n: Row(n), ROWS).sink_to(DeltaSink(sys.argv[1] + "/table", ROWS))
env.execute("killed")
"""

#: Starts Spark, prints "ready", and runs `penstock` once for each line of standard input: a step and
#: arguments. Is killed before that step of the commit (0: never); otherwise prints the exit code, the number
#: of steps and the messages.
DRIVER = """
import contextlib, io, json, os, signal, sys
from penstock.engine.commands import main
from penstock.engine.run.commits import commit_run
from penstock.engine.spark.session import get_session
from penstock.operators.connectors import commit_delta, staged_files

last, calls = 0, 0

def counted(module, name):
    before = getattr(module, name)
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*args, **kwargs)
    call.before = before
    setattr(module, name, call)

STEPS = ((staged_files, "move_file"), (staged_files, "remove_folder"), (os, "fsync"),
         (commit_delta, "_commit"), (commit_delta, "delete_files"), (os, "link"), (os, "unlink"))
prepare = commit_run._prepared
def begin(*args):
    if last >= 0:
        commit_run._prepared = prepare
        for module, name in STEPS:
            counted(module, name)
    return prepare(*args)

get_session(conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.ui.enabled": "false"})
print("ready", flush=True)
for line in sys.stdin:
    last, *arguments = json.loads(line)
    commit_run._prepared, calls = begin, 0
    code, said = 0, io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main.app(arguments, prog_name="penstock")
        except SystemExit as ended:
            code = int(ended.code or 0)
    for module, name in STEPS:
        if hasattr(getattr(module, name), "before"):
            setattr(module, name, getattr(module, name).before)
    print(json.dumps([code, calls, said.getvalue()]), flush=True)
"""


class Ending(NamedTuple):
    """The end of a run that was not killed."""

    code: int
    steps: int
    messages: str


class Point(NamedTuple):
    """The outcome of a kill; rows are counts in the files and in the table."""

    killed: str
    after_kill: tuple[int, int]
    then: str
    in_the_end: tuple[int, int]
    right: bool
    messages: str


def main() -> None:
    """Print a line for each point while it runs, and all of them as a table."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--points", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=15)
    chosen = arguments.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-kill-") as place, _drivers(Path(place)) as next_driver:
        script = Path(place, "script.py")
        script.write_text(SCRIPT)
        following = next_driver()
        whole, seconds = _whole_run(following, script, Path(place, "whole"))
        print(f"a whole run takes {seconds:.1f} s, its commit {whole.steps} steps", flush=True)
        dice = random.Random(chosen.seed)
        points = []
        for number in range(chosen.points):
            folder = Path(place, str(number))
            if number % 2:
                killed = _kill_in_commit(next_driver(), script, folder, dice.randint(1, whole.steps))
            else:
                killed = _kill_after(next_driver(), script, folder, dice.uniform(0, seconds))
            points.append(_recover(following, script, folder, killed, by_command=number % 4 >= 2))
            print(_line(number, points[-1]), flush=True)
    print("\npoint | killed | visible then | then | visible in the end | each row once | messages")
    print("\n".join(_line(number, point) for number, point in enumerate(points)))
    wrong = sum(not point.right for point in points)
    print(f"{len(points)} points, {wrong} wrong, in {time.monotonic() - began:.0f} s")
    sys.exit(1 if wrong else 0)


def _line(number: int, point: Point) -> str:
    then, end = (f"{files}+{table}" for files, table in (point.after_kill, point.in_the_end))
    once = "yes" if point.right else "NO"
    return f"{number + 1:2} | {point.killed} | {then} | {point.then} | {end} | {once} | {point.messages}"


@contextmanager
def _drivers(place: Path) -> Iterator[Callable[[], Driver]]:
    """Yield a function that returns a driver with Spark started, while DRIVERS_AHEAD more of them start."""
    program = place / "driver.py"
    program.write_text(DRIVER)
    drivers: list[Driver] = []
    ahead: deque[Driver] = deque()

    def take() -> Driver:
        while len(ahead) <= DRIVERS_AHEAD:
            ahead.append(
                subprocess.Popen(
                    [sys.executable, program],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": str(Path.cwd())},
                )
            )
            drivers.append(ahead[-1])
        driver = ahead.popleft()
        if driver.stdout is None or driver.stdout.readline() != b"ready\n":
            raise RuntimeError("a driver did not start Spark")
        return driver

    try:
        yield take
    finally:
        for driver in drivers:
            driver.kill()
            driver.wait()


def _begin(driver: Driver, script: Path, folder: Path, last_step: int = 0) -> None:
    assert driver.stdin is not None
    command = [last_step, "run", "-p", "2", str(script), str(folder)]
    driver.stdin.write(json.dumps(command).encode() + b"\n")
    driver.stdin.flush()


def _ending(driver: Driver, within_seconds: float = 300) -> Ending | None:
    """Return the end of the run; None if it is still running, or was killed."""
    assert driver.stdout is not None
    if not select.select([driver.stdout], [], [], within_seconds)[0]:
        return None
    line = driver.stdout.readline()
    return Ending(*json.loads(line)) if line else None


def _run(driver: Driver, script: Path, folder: Path) -> Ending:
    _begin(driver, script, folder)
    ended = _ending(driver)
    if ended is None or ended.code:
        raise RuntimeError(f"a run failed without a kill: {ended}")
    return ended


def _whole_run(driver: Driver, script: Path, folder: Path) -> tuple[Ending, float]:
    began = time.monotonic()
    ended = _run(driver, script, folder)
    return ended, time.monotonic() - began


def _kill_after(driver: Driver, script: Path, folder: Path, seconds: float) -> str:
    """Kill the driver this long after the run began, or earlier if the run is shorter."""
    _begin(driver, script, folder)
    while _ending(driver, seconds) is not None:
        shutil.rmtree(folder)
        seconds /= 2
        _begin(driver, script, folder)
    driver.kill()
    driver.wait()
    return f"after {seconds:.2f} s"


def _kill_in_commit(driver: Driver, script: Path, folder: Path, step: int) -> str:
    """Kill the driver right before this step of the commit, or before the last one of a shorter run."""
    _begin(driver, script, folder, step)
    while (ended := _ending(driver)) is not None:
        if ended.code or not ended.steps:
            raise RuntimeError(f"a run failed before its kill: {ended}")
        shutil.rmtree(folder)
        step = min(step - 1, ended.steps)
        _begin(driver, script, folder, step)
    if driver.wait() != -signal.SIGKILL:
        raise RuntimeError(f"the driver was not killed: {driver.returncode}")
    return f"commit, step {step}"


def _recover(following: Driver, script: Path, folder: Path, killed: str, *, by_command: bool) -> Point:
    """Recover by `penstock recover`, and a run if nothing is visible then, or only by a run."""
    after_kill = _visible(folder)
    folder.mkdir(exist_ok=True)
    messages = []
    if by_command:
        command = [sys.executable, "-P", "-m", "penstock.engine.commands.main", "recover", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        outcomes = [line.rpartition("\t")[2] for line in done.stdout.splitlines()]
        messages += [
            outcome for outcome in outcomes if outcome.startswith(("undone", "finished", "no unfinished"))
        ]
    if not by_command or not any(_visible(folder)):
        run = _run(following, script, folder)
        lines = [line for line in run.messages.splitlines() if line.startswith("penstock: ")]
        messages += ["run" if by_command else "", *lines]
    rows = _visible(folder)
    right = rows == (list(range(ROWS)),) * 2 and not list(folder.rglob(".penstock*"))
    return Point(
        killed,
        (len(after_kill[0]), len(after_kill[1])),
        "recover" if by_command else "next run",
        (len(rows[0]), len(rows[1])),
        right,
        "; ".join(filter(None, messages)),
    )


def _visible(folder: Path) -> tuple[list[int], list[int]]:
    texts = [file.read_text() for file in folder.glob("files/*") if not file.name.startswith(".")]
    table = str(folder / "table")
    exists = DeltaTable.is_deltatable(table)
    rows = DeltaTable(table).to_pyarrow_table()["n"].to_pylist() if exists else []
    return sorted(int(line) for text in texts for line in text.split()), sorted(rows)


if __name__ == "__main__":
    main()
