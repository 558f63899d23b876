"""Check that a killed run continues: kill -9 of `penstock run --checkpoint-dir`, then `--resume`.

    python -m benchmarks.kill_and_resume [POINT…]

A job of four vertices counts words and writes them into files and into a Delta table. It is killed at five
points: before the first vertex is complete, after the first, after the third, within the commit of its sinks,
and after the commit, before it is noted. `penstock run --resume` follows. A table lists for each point the
vertices that ran again (table `executions`), and how often each row occurs; the exit code is 1 unless only
unfinished vertices ran, and each row exists once. POINT: from 1 to 5; default: all.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable

from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.runtime.job_records import list_jobs

SCRIPT = """
import os, signal, sys
from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.commits import commit_run
from penstock.engine.run.runtime import kept_script
from penstock.operators.connectors.commit_delta import DeltaSink
from penstock.operators.connectors.staged_files import TextSink

def kill_at(owner, name, number):
    before, calls = getattr(owner, name), []
    def call(*args, **kwargs):
        calls.append(None)
        if len(calls) > number:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*args, **kwargs)
    setattr(owner, name, call)

POINTS = {
    "1": lambda: kill_at(kept_script.KeptJob, "complete_vertex", 0),
    "2": lambda: kill_at(kept_script.KeptJob, "begin_vertex", 1),
    "3": lambda: kill_at(commit_run, "_prepared", 0),
    "4": lambda: kill_at(commit_run, "write", 3),
    "5": lambda: kill_at(kept_script.KeptScript, "note_done", 0),
}
if "KILL_AT" in os.environ:
    POINTS[os.environ["KILL_AT"]]()

COUNT = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
lines = env.from_collection([f"to be or not to be {n % 7}" for n in range(50)], Types.STRING())
pairs = lines.flat_map(str.split, Types.STRING()).map(lambda word: Row(word, 1), COUNT)
counts = pairs.key_by(lambda one: one[0], Types.STRING()).reduce(lambda a, b: Row(a[0], a[1] + b[1]))
counts = counts.rebalance().map(lambda one: one, COUNT)
counts.map(str, Types.STRING()).sink_to(TextSink(sys.argv[1] + "/files"))
counts.sink_to(DeltaSink(sys.argv[1] + "/table", COUNT))
env.execute("killed")
"""

KILLED = (
    ("1", "first vertex not complete", 4),
    ("2", "first vertex complete", 3),
    ("3", "first three complete", 1),
    ("4", "within the commit", 0),
    ("5", "after the commit", 0),
)
_LAST = KILLED[-1][0]
ROWS = 50 * 7


def main() -> None:
    """Print a line for each point."""
    began, wrong = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="penstock-resume-") as place:
        os.environ[STATE_DIR] = str(Path(place, "state"))
        script = Path(place, "script.py")
        script.write_text(SCRIPT)
        print("killed | complete then | ran again | rows: files, table | right | messages")
        chosen = [point_spec for point_spec in KILLED if not sys.argv[1:] or point_spec[0] in sys.argv[1:]]
        for point, name, expected in chosen:
            folder = Path(place, point)
            right, line = _kill_and_resume(point, script, folder, expected)
            wrong += not right
            print(f"{name} | {line}", flush=True)
    print(f"{len(chosen)} points, {wrong} wrong, in {time.monotonic() - began:.0f} s")
    sys.exit(1 if wrong else 0)


def _kill_and_resume(point: str, script: Path, folder: Path, expected: int) -> tuple[bool, str]:
    command = [sys.executable, "-P", "-m", "penstock.engine.commands.main", "run"]
    run = [*command, "-p", "2", "-m", "local[2]", "--checkpoint-dir", str(folder / "kept")]
    killed = subprocess.run(
        [*run, str(script), str(folder)],
        env={**os.environ, "KILL_AT": point, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )
    if killed.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the driver was not killed: {killed.returncode}\n{killed.stderr}")
    job = list_jobs()[0]
    complete = len(list(folder.glob("kept/*/job-0/*.complete")))
    # a process of its own, as for a user: a run is known by the functions that it pickles
    ended = subprocess.run(
        [*command, "--resume", job.job_id],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )
    resumed = list_jobs()[0]
    executions = resumed.table("executions").select(["vertex", "host"]).to_pylist()
    ran = {row["vertex"] for row in executions if row["host"] is not None}
    files, table = _rows(folder)
    once = all(set(counts.values()) == {1} and len(counts) == ROWS for counts in (files, table))
    listed = "FINISHED" if point == _LAST else "FAILED"  # a committed job has finished
    right = once and ended.returncode == 0 and len(ran) == expected and job.state == listed
    right = right and resumed.state == "FINISHED" and not list(folder.glob("kept/*"))
    lines = "; ".join(ended.stderr.splitlines())
    counted = f"{files.total()}, {table.total()}"
    return right, f"{complete} | {len(ran)} of 4 | {counted} | {'yes' if right else 'NO'} | {lines}"


def _rows(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Return the number of each row, in the files and in the table."""
    texts = [file.read_text() for file in folder.glob("files/*") if not file.name.startswith(".")]
    table = str(folder / "table")
    rows = DeltaTable(table).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(table) else []
    return Counter(line for text in texts for line in text.splitlines()), Counter(map(str, rows))


if __name__ == "__main__":
    main()
