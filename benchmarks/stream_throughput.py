"""Compare the throughput of a keyed count over a stream: Penstock, PyFlink, and Spark's transformWithState.

    python -m benchmarks.stream_throughput --pyflink PYTHON [--keys N] [--batch N] [--seconds S] [--repeat N]

PYTHON is the interpreter of an environment with apache-flink 2.3.0. The stream is a folder of text files, a
key in each line. Each side counts the records of each key in state, and writes each count to files exactly
once: `penstock.foreach_batch` with a keyed process function, PyFlink with the same function and a
checkpoint each second, and `transformWithStateInPandas` with RocksDB. A file is a batch of `--batch`
records; choose it so that Penstock's batches take about a second, and `--transform-batch` for
transformWithState. The sides take turns. The first two batches of a side, or PyFlink's first commits, do
not count; then `records/s` are the records committed within the seconds that they took. Prints the figures
of each turn and the ratios within it.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import penstock
from penstock.common import Types
from penstock.connectors import TextSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor

COUNT_ON_PYFLINK = Path(__file__).parent / "beside_flink" / "count_on_pyflink.py"
_WARM_BATCHES = 2
Progress = list[tuple[float, int]]
"""Moments in seconds, and the records committed by then."""


class Count(KeyedProcessFunction):
    """Yields each key with its count."""

    def open(self, runtime_context: Any) -> None:
        """Create the count."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        """Count one record."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value[0]} {count}"


def main() -> None:
    """Run the turns, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pyflink", required=True, metavar="PYTHON")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--transform-batch", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--modes", default="thread,process")
    parser.add_argument("--seed", type=int, default=62)
    chosen = parser.parse_args()
    sides = ["penstock", *(f"pyflink {mode}" for mode in chosen.modes.split(",")), "transformWithState"]
    print(f"seed {chosen.seed}, {chosen.keys:,} keys, {chosen.batch:,} records a batch", flush=True)
    figures: dict[str, list[float]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="penstock-throughput-") as place:
        for turn in range(chosen.repeat):
            for side in sides:
                folder = Path(place) / f"{turn}-{side.replace(' ', '-')}"
                batch = chosen.transform_batch if side == "transformWithState" else chosen.batch
                _write(folder / "in", chosen.keys, batch, chosen.seed)
                if side.startswith("pyflink"):
                    progress = on_pyflink(chosen.pyflink, side.split()[1], folder, chosen.seconds)
                else:
                    run = with_penstock if side == "penstock" else with_transform_with_state
                    progress = on_spark(run, folder, chosen.seconds)
                rate = records_per_second(progress)
                figures[side].append(rate)
                print(f"turn {turn + 1}: {side}: {rate:,.0f} records/s", flush=True)
    table = Table("side", "records/s", "Penstock is faster by")
    for side, rates in figures.items():
        ratios = [ours / theirs for ours, theirs in zip(figures["penstock"], rates, strict=True) if theirs]
        table.add_row(side, f"{median(rates):,.0f}", f"{median(ratios):.1f}" if ratios else "-")
    Console().print(table)


def _write(folder: Path, keys: int, batch: int, seed: int) -> None:
    """Write as many files as a side can read in a minute or two."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    for number in range(60):
        lines = "".join(f"user-{draw.randrange(keys):06d}\n" for _ in range(batch))
        (folder / f"{number:04d}.txt").write_text(lines)
        os.utime(folder / f"{number:04d}.txt", (1_700_000_000 + number,) * 2)


def records_per_second(progress: Progress) -> float:
    """Return the rate from the first moment to the last one."""
    if len(progress) < 2:
        return 0.0
    (began, before), (ended, after) = progress[0], progress[-1]
    return (after - before) / (ended - began)


def on_pyflink(python: str, mode: str, folder: Path, seconds: float) -> Progress:
    """Return the commits of PyFlink."""
    found = [python, "-c", "import pyflink; print(pyflink.__path__[0])"]
    package = Path(subprocess.run(found, check=True, capture_output=True, text=True).stdout.strip())
    environment = {
        **os.environ,
        "STREAM_MODE": mode,
        "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",  # its workers are `python`
        "PYTHONPATH": str(package.parent),  # thread mode searches it
    }
    command = [python, str(COUNT_ON_PYFLINK), str(folder), str(seconds)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"PyFlink failed:\n{done.stderr[-3000:]}")
    lines: Progress = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return lines[_WARM_BATCHES:]


def on_spark(run: Any, folder: Path, seconds: float) -> Progress:
    """Return the batches of a query that `run` starts."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder / "in"))
    query = run(lines, folder).option("checkpointLocation", str(folder / "checkpoint"))
    query = query.trigger(processingTime="0 seconds").start()
    until = time.monotonic() + seconds
    progress: dict[int, tuple[float, int]] = {}
    records = 0
    while time.monotonic() < until and query.isActive and len(progress) < 60:
        time.sleep(0.05)
        last = query.lastProgress
        if last is not None and last["numInputRows"] and last["batchId"] not in progress:
            records = (last["batchId"] + 1) * last["numInputRows"]
            progress[last["batchId"]] = time.monotonic(), records
    failed = query.exception()
    query.stop()  # which interrupts a batch
    if failed is not None:
        sys.exit(f"Spark failed: {failed}")
    spark.stop()
    return list(progress.values())[_WARM_BATCHES:]


def with_penstock(lines: Any, folder: Path) -> Any:
    """Count with `penstock.foreach_batch`."""

    def build(keys: Any) -> None:
        counts = keys.process(Count(), Types.STRING())
        counts.sink_to(TextSink(str(folder / "out")))

    state = folder / "state"
    function = penstock.foreach_batch(build, state=state, key="value", parallelism=2)
    return lines.writeStream.foreachBatch(function)


def with_transform_with_state(lines: Any, folder: Path) -> Any:
    """Count with Spark's own operator, a row for each record."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class CountOfKey(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            number = sum(map(len, rows))
            before = self.count.get()[0] if self.count.exists() else 0
            self.count.update((before + number,))
            yield pd.DataFrame({"line": [f"{key[0]} {before + one + 1}" for one in range(number)]})

        def close(self) -> None:
            pass

    counts = lines.groupBy("value").transformWithStateInPandas(
        CountOfKey(), "line string", outputMode="Append", timeMode="None"
    )
    return counts.writeStream.format("text").option("path", str(folder / "out")).outputMode("append")


if __name__ == "__main__":
    main()
