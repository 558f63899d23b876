"""Check that every row arrives once if a stream is killed: kill -9 of its driver, JVM or Python workers.

    python -m benchmarks.stream_kills [POINTS] [--seed N]

A query counts records by key, through `penstock.foreach_batch`, into files and into a Delta table. Each point
adds two files of input, starts a driver that goes on with the query, and kills: the driver, before a step of
a commit (a file is renamed, forced to the disk, linked or removed, a transaction is made) or at a random
moment of its batches; the JVM or a Python worker, at a random moment. A last driver is not killed. A table
lists the points; the exit code is 1 unless the files and the table have each count of each key once.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable

KEYS, RECORDS = 20, 200
_SECONDS_FOR_A_DRIVER = 600.0
_STEPS_OF_A_COMMIT = 60

#: Prints "batch N" when a batch begins, "step N" for the steps that it has passed, and "done".
DRIVER = """
import os, signal, sys
import penstock
from penstock.common import Row, Types
from penstock.connectors import DeltaSink, JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
from penstock.engine.run.commits import commit_run
from penstock.operators.connectors import commit_delta, staged_files
from pyspark.sql import SparkSession

folder, last = sys.argv[1], int(sys.argv[2])
os.chdir(folder)
steps = 0

def counted(module, name):
    before = getattr(module, name)
    def call(*args, **kwargs):
        global steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*args, **kwargs)
    setattr(module, name, call)

prepare = commit_run._prepared
def begin(*args):
    commit_run._prepared = prepare
    for module, name in ((staged_files, "move_file"), (os, "fsync"), (os, "link"), (os, "unlink"),
                         (os, "rename"), (commit_delta, "_commit")):
        counted(module, name)
    return prepare(*args)
commit_run._prepared = begin

counts = Types.ROW_NAMED(["key", "count"], [Types.STRING(), Types.LONG()])

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

    def process_element(self, record, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(record.key, count)

def build(records):
    counted = records.process(Count(), counts).uid("count")
    counted.sink_to(JsonLinesSink("counts", counts))
    counted.sink_to(DeltaSink("table", counts))

function = penstock.foreach_batch(build, state="state", key="key", parallelism=2)

def run_batch(df, number):
    print("batch", number, flush=True)
    function(df, number)

spark = (
    SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
)
records = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json("input")
query = records.writeStream.foreachBatch(run_batch).option("checkpointLocation", "checkpoint")
query.trigger(availableNow=True).start().awaitTermination()
print("steps", steps, flush=True)
"""


def main() -> None:
    """Print a line for each point, and whether all rows arrived once."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("points", type=int, nargs="?", default=20)
    arguments.add_argument("--seed", type=int, default=62)
    chosen = arguments.parse_args()
    draw = random.Random(chosen.seed)
    print(f"seed {chosen.seed}")
    with tempfile.TemporaryDirectory(prefix="penstock-stream-kills-") as place:
        folder = Path(place)
        (folder / "input").mkdir()
        expected: Counter[str] = Counter()
        for number in range(chosen.points):
            _add_input(folder, draw, expected)
            _add_input(folder, draw, expected)
            kind = ("step", "moment", "step", "jvm", "step", "worker")[number % 6]
            print(f"{number + 1:>3}  {_point(folder, kind, draw)}", flush=True)
        print(f"     then: {_point(folder, 'none', draw)}", flush=True)
        wanted = Counter((key, count) for key, most in expected.items() for count in range(1, most + 1))
        wrong = False
        for name, rows in (("files", _in_files(folder)), ("table", _in_table(folder))):
            lost, twice = sum((wanted - rows).values()), sum((rows - wanted).values())
            wrong |= bool(lost or twice)
            print(f"{name}: {sum(rows.values()):,} rows, {lost} lost, {twice} twice")
    sys.exit(int(wrong))


def _add_input(folder: Path, draw: random.Random, expected: Counter[str]) -> None:
    keys = [f"key{draw.randrange(KEYS)}" for _ in range(RECORDS)]
    expected.update(keys)
    number = len(list((folder / "input").iterdir()))
    unfinished = folder / "unfinished"
    unfinished.write_text("".join(json.dumps({"key": key}) + "\n" for key in keys))
    os.utime(unfinished, (1_700_000_000 + number,) * 2)
    unfinished.rename(folder / "input" / f"{number:06d}.json")


def _point(folder: Path, kind: str, draw: random.Random) -> str:
    """Run a driver, and kill it or one of its processes; describe what happened."""
    step = draw.randint(1, _STEPS_OF_A_COMMIT) if kind == "step" else 0
    errors = (folder / "errors").open("ab")
    command = [sys.executable, "-c", DRIVER, str(folder), str(step)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
    assert driver.stdout is not None
    began = time.monotonic()
    killed = f"driver before step {step}" if step else "nothing"
    batches = 0
    try:
        for line in driver.stdout:
            batches += line.startswith(b"batch")
            if kind in ("moment", "jvm", "worker") and line.startswith(b"batch"):
                seconds = draw.uniform(0, 4)
                time.sleep(seconds)
                killed = f"{_kill(driver, kind)} {seconds:.2f} s after the begin of a batch"
                kind = "none"
            if time.monotonic() - began > _SECONDS_FOR_A_DRIVER:
                break
    finally:
        with suppress(subprocess.TimeoutExpired):
            driver.wait(timeout=30)
        # the JVM and the workers of a killed driver, which are processes of its session
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        errors.close()
    return f"killed {killed}; {batches} batches begun, exit code {driver.returncode}"


def _kill(driver: "subprocess.Popen[bytes]", kind: str) -> str:
    if kind == "moment":
        driver.kill()
        return "driver"
    wanted = "java" if kind == "jvm" else "python"
    own: list[int] = []
    for _ in range(200):  # workers start with the first batch
        own = [pid for pid in _descendants(driver.pid) if wanted in _command(pid)]
        if own or driver.poll() is not None:
            break
        time.sleep(0.1)
    if not own:
        return f"no {wanted} process"
    os.kill(own[-1], signal.SIGKILL)
    return "JVM" if kind == "jvm" else "Python worker"


def _descendants(pid: int) -> list[int]:
    parents = {}
    for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError, IndexError):
            stat = Path(f"/proc/{process}/stat").read_text()
            parents[process] = int(stat.rsplit(")", 1)[1].split()[1])
    found = [pid]
    for ancestor in found:  # grows meanwhile
        found += [process for process, parent in parents.items() if parent == ancestor]
    return found[1:]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def _in_files(folder: Path) -> Counter[tuple[str, int]]:
    files = (folder / "counts").glob("*.jsonl")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return Counter((row["key"], row["count"]) for row in rows)


def _in_table(folder: Path) -> Counter[tuple[str, int]]:
    rows = DeltaTable(folder / "table").to_pyarrow_table().to_pylist()
    return Counter((row["key"], row["count"]) for row in rows)


if __name__ == "__main__":
    main()
