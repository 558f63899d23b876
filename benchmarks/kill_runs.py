"""Whether every row arrives once where drivers are killed: kill -9 of `penstock run`, then recovery.

    python -m benchmarks.kill_runs [--points N] [--seed N]

The job writes rows 0 to 99 into files and into a Delta table. Half of the points are random moments of the
run; half are steps of the commit: the driver ends by SIGKILL right before a file is renamed, a record of
the journal is written or forced to the disk, the transaction is made, a folder is removed. After half of
the kills `penstock recover` follows, and the job is run again if nothing of it is visible; after the others
the job is run again at once. A line for each point says what was visible after the kill and in the end; the
exit code is 1 unless each row is there once.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable

ROWS = 100

SCRIPT = """
import sys
from pyflink.common import Types, WatermarkStrategy
from pyflink.common import Row
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from operators.connectors.delta.delta_sink import DeltaSink
from operators.connectors.file_sinks.plain_sinks import TextSink

ROWS = Types.ROW_NAMED(["n"], [Types.LONG()])
env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "n", Types.LONG())
numbers.sink_to(TextSink(sys.argv[1] + "/files"))
numbers.map(lambda n: Row(n), ROWS).sink_to(DeltaSink(sys.argv[1] + "/table", ROWS))
env.execute("killed")
"""

#: Runs `penstock run` and ends it before step sys.argv[1] of the commit; 0: it prints how many there are.
DRIVER = """
import os, signal, sys
from engine.commands import main
from engine.commits import commit_run
from operators.connectors.delta import commit_delta
from operators.connectors.file_sinks import staged_files

last, calls = int(sys.argv.pop(1)), 0

def counted(module, name):
    before = getattr(module, name)
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*args, **kwargs)
    setattr(module, name, call)

prepare = commit_run._prepared
def begin(*args):
    commit_run._prepared = prepare
    for module, name in ((staged_files, "move_file"), (staged_files, "remove_folder"), (os, "fsync"),
                         (commit_delta, "_commit"), (commit_delta, "delete_files"), (os, "link"),
                         (os, "unlink")):
        counted(module, name)
    return prepare(*args)
commit_run._prepared = begin
try:
    main.main()
finally:
    print("steps", calls)
"""


def main() -> None:
    """Run and print a line a point."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--points", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=15)
    chosen = arguments.parse_args()
    dice = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory(prefix="penstock-kill-") as place:
        script, driver = Path(place, "script.py"), Path(place, "driver.py")
        script.write_text(SCRIPT)
        driver.write_text(DRIVER)
        began = time.monotonic()
        whole = _driven(driver, script, Path(place, "whole"), 0)
        seconds = time.monotonic() - began
        assert whole.returncode == 0, whole.stderr
        steps = int(whole.stdout.rpartition("steps ")[2])
        print(f"a whole run takes {seconds:.1f} s, its commit {steps} steps", flush=True)
        wrong = 0
        for point in range(chosen.points):
            folder = Path(place, str(point))
            if point % 2:
                step = dice.randint(1, steps)
                label = f"commit, step {step}"
                done = _driven(driver, script, folder, step)
                assert done.returncode == -signal.SIGKILL, (done.returncode, done.stdout, done.stderr)
            else:
                after = dice.uniform(0, seconds)
                label = f"after {after:.1f} s"
                _killed_after(script, folder, after)
            seen = _visible(folder)
            how = "recover" if point % 4 >= 2 else "next run"
            said = _recovered(script, folder) if how == "recover" else _again(script, folder)
            last = _visible(folder)
            right = last == (list(range(ROWS)),) * 2 and not list(folder.rglob(".penstock*"))
            wrong += not right
            print(
                f"{point + 1:2} kill {label}: {len(seen[0])} and {len(seen[1])} rows; {how}: "
                f"{len(last[0])} and {len(last[1])} rows, {'each once' if right else 'WRONG'}; {said}",
                flush=True,
            )
    sys.exit(1 if wrong else 0)


def _killed_after(script: Path, folder: Path, seconds: float) -> None:
    process = subprocess.Popen(
        _penstock("run", "-p", "2", script, folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode == 0:  # it was quicker than the first one
        subprocess.run(["rm", "-rf", folder], check=True)


def _driven(driver: Path, script: Path, folder: Path, step: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, driver, str(step), "run", "-p", "2", script, folder],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )


def _recovered(script: Path, folder: Path) -> str:
    """What recover said; the job is run again if none of it is there."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(_penstock("recover", folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.strip().splitlines()[-1].split("\t")[-1]
    if not any(_visible(folder)):
        said += "; " + _again(script, folder)
    return said


def _again(script: Path, folder: Path) -> str:
    done = _run(script, folder)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
    return " / ".join(lines) or "run"


def _run(script: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _penstock("run", "-p", "2", script, folder), capture_output=True, text=True, check=False
    )


def _penstock(*arguments: object) -> list[str]:
    return [sys.executable, "-P", "-m", "engine.commands.main", *map(str, arguments)]


def _visible(folder: Path) -> tuple[list[int], list[int]]:
    texts = [file.read_text() for file in folder.glob("files/*") if not file.name.startswith(".")]
    table = str(folder / "table")
    there = DeltaTable.is_deltatable(table)
    rows = DeltaTable(table).to_pyarrow_table()["n"].to_pylist() if there else []
    return sorted(int(line) for text in texts for line in text.split()), sorted(rows)


if __name__ == "__main__":
    main()
