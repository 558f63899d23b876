"""Measure the state of streams: CPU time and bytes for each key, calls of a far store, the time of a restart.

    python -m benchmarks.stream_state keys [--keys 1000000] [--touched 100000] [--batches 40]
    python -m benchmarks.stream_state calls [--milliseconds 20]
    python -m benchmarks.stream_state restart [--keys 1000000] [--touched 100000] [--milliseconds 20]

`keys` counts records of random keys in one subtask's state, without Spark. CPU time is divided among the keys
that a batch touches; bytes written, with all merges, are compared with the rows of the changed entries alone.

`calls` runs batches of a small stream in this process whose state is in a folder with a delay for each call,
after 1, 10 and 100 batches without a merge, with the copies of this machine and without.

`restart` counts in Spark's local mode. A driver is killed by kill -9 while it runs a batch; the next one is
timed from its start to the end of that batch: over a local folder, over a far one with copies, and without.
Plain Spark, with two `mapInArrow` and a shuffle in place of the topology, goes first, for comparison.
"""

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.common import Types
from penstock.connectors import JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.serialized_keys import dictionary_keys
from penstock.operators.connectors.state_sink import make_store, store_key
from penstock.operators.state import stored_state
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.state_segments import SegmentStore
from penstock.operators.state.stored_state import OperatorRecord, StoredState
from tests.engine.run.streams.batches_in_process import Stream, in_process
from tests.engine.run.streams.remote_files import SCHEME, Far, far_files

ROOT = Path(__file__).parents[1]
_KEYS_AT_ONCE = 8192


# CPU time and bytes


def keys(number: int, touched: int, batches: int) -> None:
    """Print CPU microseconds for each touched key, and bytes written for each byte of changed entries."""
    draw = np.random.default_rng(62)
    descriptor = ValueStateDescriptor("counts", Types.LONG())
    with tempfile.TemporaryDirectory(prefix="penstock-stream-state-") as place:
        store = f"{place}/state"
        make_store(store)
        tables: Any = {}
        loads, uses, writes, alone, written = [], [], [], 0.0, 0
        for version in range(1, batches + 2):
            first = version == 1
            chosen = np.arange(number) if first else draw.choice(number, touched, replace=False)
            stream_keys = dictionary_keys([f"key{key:07d}" for key in chosen.tolist()])
            record = OperatorRecord(
                operator_id="id",
                uid="count",
                name="count",
                max_parallelism=128,
                key_type=Types.STRING(),
                key_text=None if first else "String",
                tables=tables,
            )
            segments = SegmentStore(store, version, store_key(store))
            stored = StoredState(record, segments, 0, 128)
            backend = KeyedStateBackend(OperatorContext(stored_state=stored, state_memory_bytes=1 << 40))
            state = backend.state(descriptor)
            began, load = time.process_time(), 0.0
            for start in range(0, len(stream_keys), _KEYS_AT_ONCE):
                some = stream_keys[start : start + _KEYS_AT_ONCE]
                at = time.process_time()
                backend.load(set(some))
                load += time.process_time() - at
                for key in some:
                    backend.key = key
                    state.update((state.value() or 0) + 1)
            used = time.process_time()
            before = {file.name for file in Path(store, "segments").iterdir()}
            tables = {(0, 128): backend.written_tables()}
            ended = time.process_time()
            new = [file for file in Path(store, "segments").iterdir() if file.name not in before]
            if first:
                per_row = sum(file.stat().st_size for file in new) / number
                print(f"{number:,} keys, {per_row:.1f} bytes per row")
                continue
            loads.append(load / touched * 1e6)
            uses.append((used - began - load) / touched * 1e6)
            writes.append((ended - used) / touched * 1e6)
            written += sum(file.stat().st_size for file in new)
            alone += touched * per_row
        total = [sum(parts) for parts in zip(loads, uses, writes, strict=True)]
        for name, figures in (("load", loads), ("use", uses), ("write", writes), ("together", total)):
            print(
                f"{name}: {statistics.mean(figures):.2f} us of CPU a touched key "
                f"(median {statistics.median(figures):.2f}, most {max(figures):.2f})"
            )
        # 14 bytes of a key, with its offset, and 8 of a value
        bare = 22 * touched * batches
        print(
            f"bytes written: {written:,}, {written / alone:.2f} times the rows of changed entries, "
            f"{written / bare:.2f} times their keys and values alone"
        )


# Calls of a store that is not local


class _Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

    def process_element(self, click: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield click.user, count


def calls(milliseconds: float) -> None:
    """Print calls and seconds of a batch by the number of segments, with and without copies."""
    rows = [(f"user{number}", 1, number) for number in range(200)]
    print("changelogs | copies | calls of workers | of the driver | seconds")
    with tempfile.TemporaryDirectory(prefix="penstock-stream-calls-") as place, ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        in_process.__wrapped__(patch)  # type: ignore[attr-defined]
        patch.setattr(stored_state, "_MOST_SEGMENTS", 1_000)
        patch.setattr(stored_state, "_CHANGES_PER_SNAPSHOT", 1 << 30)
        patch.setattr(tempfile, "tempdir", f"{place}/tmp")
        os.mkdir(f"{place}/tmp")
        far = Far()
        stack.enter_context(far_files(far))
        counts = Types.TUPLE([Types.STRING(), Types.LONG()])

        def build(clicks: Any) -> None:
            clicks.process(_Count(), counts).uid("count").sink_to(JsonLinesSink(f"{place}/counts"))

        stream = Stream(Path(place), build, state=f"{SCHEME}{place}/state", keep=1_000)
        number = 0
        for changelogs in (1, 10, 100):
            while number < changelogs:
                stream.batch(rows, number)
                number += 1
            for has_copies in (True, False):
                if not has_copies:
                    shutil.rmtree(f"{place}/tmp")
                    os.mkdir(f"{place}/tmp")
                far.calls.clear()
                far.paths.clear()
                far.seconds = milliseconds / 1000
                started = time.monotonic()
                stream.batch(rows, number)
                seconds = time.monotonic() - started
                far.seconds = 0.0
                number += 1
                of_workers = sum(times for (_, path), times in far.paths.items() if "/segments/" in path)
                together = sum(far.calls.values())
                print(
                    f"{changelogs} | {'yes' if has_copies else 'no'} | {of_workers} | "
                    f"{together - of_workers} | {seconds:.2f}"
                )
                print("   ", dict(far.calls), file=sys.stderr)


# The time of a restart

DRIVER = """
import os, sys, time
import penstock
from penstock.common import Row, Types
from penstock.connectors import JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import SparkSession

folder, state, side = sys.argv[1:]
counts = Types.ROW_NAMED(["key", "count"], [Types.LONG(), Types.LONG()])

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

    def process_element(self, record, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(record.key, count)

def build(records):
    records.process(Count(), counts).uid("count").sink_to(JsonLinesSink(f"{folder}/counts", counts))

def plain(df, number):
    def same(batches):
        yield from batches
    kept = df.mapInArrow(same, df.schema).repartition(2, "key").mapInArrow(same, df.schema)
    kept.write.format("noop").mode("append").save()

counted = penstock.foreach_batch(build, state=state, key="key", parallelism=2)
function = plain if side == "plain" else counted

def run_batch(df, number):
    print("begun", flush=True)
    function(df, number)
    print("done", flush=True)

spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
records = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(f"{folder}/input")
query = records.writeStream.foreachBatch(run_batch).option("checkpointLocation", f"{folder}/checkpoint")
query.trigger(availableNow=True).start().awaitTermination()
"""

SITE = """
import sys
if {seconds} and not any("pip" in argument for argument in sys.argv):
    sys.path.append({root!r})
    from tests.engine.run.streams.remote_files import Far, far_files
    _far = far_files(Far({seconds}))
    _far.__enter__()
"""


def restart(number: int, touched: int, milliseconds: float) -> None:
    """Print the seconds of the first batch after a kill, from the start of the driver."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(62)
    for side, is_far in (("plain", False), ("penstock", False), ("penstock", True)):
        with tempfile.TemporaryDirectory(prefix="penstock-stream-restart-") as place:
            folder = Path(place)
            for name in ("input", "site", "tmp"):
                (folder / name).mkdir()
            seconds = milliseconds / 1000 if is_far else 0.0
            site = SITE.format(seconds=seconds, root=str(ROOT))
            (folder / "site" / "sitecustomize.py").write_text(site)
            state = f"{SCHEME if is_far else ''}{folder}/state"
            for batch in range(8):
                chosen = np.arange(number) if batch == 0 else draw.choice(number, touched, replace=False)
                file = folder / f"{batch}.parquet"
                pq.write_table(pa.table({"key": chosen}), file)
                os.utime(file, (1_700_000_000 + batch,) * 2)
            _add(folder, *range(4))
            _drive(folder, state, side, None)
            for batch, has_copies in enumerate((True, False) if is_far else (True,), 4):
                _add(folder, batch)
                _drive(folder, state, side, random.Random(batch).uniform(0.3, 1.0))
                if not has_copies:
                    shutil.rmtree(folder / "tmp")
                    (folder / "tmp").mkdir()
                taken = _drive(folder, state, side, None)
                store = f"{milliseconds:.0f} ms a call" if is_far else "local"
                copies = ("with copies" if has_copies else "without copies") if is_far else "mapped in place"
                run = "plain Spark" if side == "plain" else f"{store}, {copies}"
                print(f"{run}: first batch after kill -9 done in {taken:.1f} s", flush=True)


def _add(folder: Path, *batches: int) -> None:
    for batch in batches:
        (folder / f"{batch}.parquet").rename(folder / "input" / f"{batch}.parquet")


def _drive(folder: Path, state: str, side: str, kill_after: float | None) -> float:
    """Run a driver to its end, or kill it that long after its batch has begun; return seconds to its end."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}/site",
        "TMPDIR": f"{folder}/tmp",
        "PYSPARK_PYTHON": sys.executable,
    }
    started = time.monotonic()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), state, side],
        stdout=subprocess.PIPE,
        stderr=(folder / "errors").open("ab"),
        text=True,
        env=environment,
        start_new_session=True,
    )
    done = 0.0
    try:
        for word in _words(driver):
            if word == "begun" and kill_after is not None:
                time.sleep(kill_after)
                break
            if word == "done":
                done = time.monotonic() - started
    finally:
        if kill_after is not None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    if kill_after is None and driver.returncode:
        raise SystemExit((folder / "errors").read_text()[-3000:])
    return done


def _words(driver: "subprocess.Popen[str]") -> Iterator[str]:
    assert driver.stdout is not None
    for line in driver.stdout:
        yield line.strip()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("keys", "calls", "restart"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--touched", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=20.0)
    chosen = parser.parse_args()
    match chosen.part:
        case "keys":
            keys(chosen.keys, chosen.touched, chosen.batches)
        case "calls":
            calls(chosen.milliseconds)
        case "restart":
            restart(chosen.keys, chosen.touched, chosen.milliseconds)


if __name__ == "__main__":
    main()
