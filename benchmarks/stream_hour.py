"""Watch a stream for an hour: memory, files and the time of a batch must stay flat.

    python -m benchmarks.stream_hour measure FIGURES.csv [--minutes 60] [--rate 4000] [--seconds 10]
    python -m benchmarks.stream_hour draw FIGURES.csv PICTURE.svg

`measure` runs one query in a local session: a count of each of 50,000 keys, and a count of each key and
window of 30 seconds, into files, through `penstock.foreach_batch`. `--rate` are records a second of Spark's
rate source, `--seconds` those between two batches. A row a minute has medians of the batches since the row
before, and memory and files at that time; files of the sinks are read and removed meanwhile. At the end, each
count of each key must have come once.
"""

import argparse
import csv
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.process_memory import process_memory
from penstock.engine.output.figures import MARKERS, figure_bytes, new_figure

KEYS = 50_000
WINDOW_SECONDS = 30
_MEBIBYTE = 2**20
_SECONDS_PER_ROW = 60.0


class Figures(NamedTuple):
    """A stream at one time; MiB of processes are resident, with shared pages divided among them."""

    minute: float
    batches: int  #: since the start
    batch_seconds: float  #: median since the row before, of the whole micro-batch
    longest_seconds: float
    rows_per_second: float  #: that the sink got, since the row before
    cores: float  #: CPU seconds a second since the row before, of all processes
    driver_mebibytes: float  #: the driver's Python process
    workers_mebibytes: float  #: all Python workers
    jvm_mebibytes: float
    heap_mebibytes: float  #: the JVM's heap after a collection
    state_files: int
    state_mebibytes: float
    spark_files: int  #: blocks and shuffles on the disk
    spark_mebibytes: float
    open_files: int  #: descriptors of all processes


def measure(figures: Path, minutes: float, rate: int, seconds: int) -> None:
    """Run the query, and write a row a minute into the table `figures`; fail if a count is wrong."""
    with tempfile.TemporaryDirectory(prefix="penstock-stream-hour-") as place:
        folder = Path(place)
        spark = _session(folder)
        query = _query(spark, folder, rate, seconds)
        watch = _Watch(spark, query, folder)
        started = time.monotonic()
        with figures.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Figures._fields)
            while (minute := (time.monotonic() - started) / 60) < minutes:
                time.sleep(_SECONDS_PER_ROW)
                if not query.isActive:
                    raise SystemExit(f"the query has ended: {query.exception()}")
                row = watch.row(minute + _SECONDS_PER_ROW / 60)
                print(*row, flush=True)
                writer.writerow(row)
                file.flush()
        query.stop()
        wrong = watch.wrong_counts()
        print(f"{watch.batches} batches, {watch.rows:,} rows; {wrong} keys have a wrong count")
        spark.stop()
    sys.exit(int(bool(wrong)))


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _query(spark: Any, folder: Path, rate: int, seconds: int) -> Any:
    import penstock
    from penstock.common import Row, Time, Types
    from penstock.connectors import JsonLinesSink
    from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
    from penstock.datastream.functions import AggregateFunction
    from penstock.datastream.window import TumblingEventTimeWindows

    counts = Types.ROW_NAMED(["key", "count"], [Types.LONG(), Types.LONG()])

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

        def process_element(self, record: Any, ctx: Any) -> Any:
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield Row(record.key, count)

    class InWindow(AggregateFunction):
        def create_accumulator(self) -> Any:
            return (0, 0)

        def add(self, record: Any, accumulator: Any) -> Any:
            return record.key, accumulator[1] + 1

        def get_result(self, accumulator: Any) -> Any:
            return Row(*accumulator)

        def merge(self, one: Any, other: Any) -> Any:
            return one[0], one[1] + other[1]

    def build(records: Any) -> None:
        records.process(Count(), counts).uid("count").sink_to(JsonLinesSink(str(folder / "counts"), counts))
        windows = records.window(TumblingEventTimeWindows.of(Time.seconds(WINDOW_SECONDS)))
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        in_windows = windows.aggregate(InWindow(), accumulator_type=pair, output_type=counts).uid("windows")
        in_windows.sink_to(JsonLinesSink(str(folder / "windows"), counts))

    function = penstock.foreach_batch(
        build,
        state=folder / "state",
        key="key",
        event_time="timestamp",
        watermark="1 second",
        parallelism=2,
    )
    rows = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
    keyed = rows.selectExpr("timestamp", f"value % {KEYS} as key")
    writer = keyed.writeStream.foreachBatch(function).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime=f"{seconds} seconds").start()


class _Watch:
    """Takes figures of a query, and counts the rows in its sinks."""

    def __init__(self, spark: Any, query: Any, folder: Path) -> None:
        self.rows = self.batches = 0
        self._spark, self._query, self._folder = spark, query, folder
        self._process = psutil.Process()
        self._last_batch = -1
        self._counts: dict[int, int] = {}
        self._cpu: dict[tuple[int, float], float] = {}
        self._since = time.monotonic()
        self._cpu_seconds()

    def row(self, minute: float) -> Figures:
        """Return the figures of now, and of the batches since the last call."""
        now = time.monotonic()
        passed, self._since = now - self._since, now
        cpu_seconds = self._cpu_seconds()
        seconds = self._new_batches()
        before = self.rows
        self._take_rows()
        runtime = self._spark._jvm.java.lang.Runtime.getRuntime()
        self._spark._jvm.java.lang.System.gc()
        heap = runtime.totalMemory() - runtime.freeMemory()
        processes = self._processes()
        jvms = [process.pid for process in processes if process.name() == "java"]
        workers = [process.pid for process in processes[1:] if process.pid not in jvms]
        state, scratch = _files(self._folder / "state"), _files(self._folder / "spark")
        return Figures(
            round(minute, 2),
            self.batches,
            round(statistics.median(seconds), 3) if seconds else 0.0,
            max(seconds, default=0.0),
            round((self.rows - before) / passed, 1),
            round(cpu_seconds / passed, 3),
            round(process_memory(os.getpid(), "Pss") / _MEBIBYTE, 1),
            round(sum(process_memory(pid, "Pss") for pid in workers) / _MEBIBYTE, 1),
            round(sum(process_memory(pid, "Pss") for pid in jvms) / _MEBIBYTE, 1),
            round(heap / _MEBIBYTE, 1),
            len(state),
            round(sum(state) / _MEBIBYTE, 2),
            len(scratch),
            round(sum(scratch) / _MEBIBYTE, 2),
            sum(map(_descriptors, processes)),
        )

    def _processes(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]

    def _cpu_seconds(self) -> float:
        before = sum(self._cpu.values())
        for process in self._processes():
            with suppress(psutil.Error):
                times = process.cpu_times()
                self._cpu[process.pid, process.create_time()] = times.user + times.system
        return sum(self._cpu.values()) - before

    def _new_batches(self) -> list[float]:
        seconds = []
        for progress in self._query.recentProgress:
            if progress.batchId > self._last_batch and "addBatch" in progress.durationMs:
                self._last_batch = progress.batchId
                seconds.append(progress.durationMs["triggerExecution"] / 1000)
        self.batches += len(seconds)
        return seconds

    def _take_rows(self) -> None:
        """Read the files of the sinks, and remove them."""
        for file in (self._folder / "counts").glob("*.jsonl"):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                self.rows += 1
                self._counts[row["key"]] = max(row["count"], self._counts.get(row["key"], 0))
            file.unlink()
        for file in (self._folder / "windows").glob("*.jsonl"):
            file.unlink()

    def wrong_counts(self) -> int:
        """Return how many keys have another count than the state; the query must have been stopped.

        Each row of a key has the next count, so that as many rows as counts together are each of them once.
        """
        from penstock import open_state

        self._take_rows()
        state = open_state(self._folder / "state").table("counts")
        stored = dict(zip(state["key"].to_pylist(), state["value"].to_pylist(), strict=True))
        wrong = sum(stored.get(key) != self._counts.get(key) for key in stored.keys() | self._counts.keys())
        return int(wrong) + abs(int(sum(stored.values())) - self.rows)


def _files(folder: Path) -> list[int]:
    """Return the sizes of all files below a folder."""
    sizes = []
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                sizes.append(os.path.getsize(os.path.join(where, name)))
    return sizes


def _descriptors(process: psutil.Process) -> int:
    try:
        return int(process.num_fds())
    except psutil.Error:
        return 0


PANELS = {
    "memory (MiB)": {
        "driver_mebibytes": "driver",
        "workers_mebibytes": "Python workers",
        "heap_mebibytes": "JVM heap after a collection",
    },
    "seconds for a batch": {
        "batch_seconds": "median of a minute",
        "cpu_seconds": "CPU time of all processes",
    },
    "files": {"state_files": "of the state", "spark_files": "of Spark", "open_files": "open"},
    "size of the state (MiB)": {"state_mebibytes": "all versions that are kept"},
}


def draw(figures: Path, picture: Path) -> None:
    """Draw the figures over the minutes."""
    with figures.open(newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    minutes = [row["minute"] for row in rows]
    before = {"minute": 0.0, "batches": 0.0}
    for row in rows:
        batches = row["batches"] - before["batches"]
        row["cpu_seconds"] = row["cores"] * (row["minute"] - before["minute"]) * 60 / max(batches, 1)
        before = row
    figure = new_figure(9, 5)
    for axes, (title, lines) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for marker, (column, label) in zip(MARKERS, lines.items(), strict=False):
            values = [row[column] for row in rows]
            axes.plot(minutes, values, marker=marker, markersize=3, linewidth=1, label=label)
        axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # room for the legend
        axes.set_ylabel(title)
        axes.set_xlabel("minutes")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper left")
    picture.write_bytes(figure_bytes(figure, picture.suffix[1:]))


def main() -> None:
    """Measure or draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    measuring = commands.add_parser("measure")
    measuring.add_argument("figures", type=Path)
    measuring.add_argument("--minutes", type=float, default=60.0)
    measuring.add_argument("--rate", type=int, default=4_000)
    measuring.add_argument("--seconds", type=int, default=10)
    drawing = commands.add_parser("draw")
    drawing.add_argument("figures", type=Path)
    drawing.add_argument("picture", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "draw":
        draw(chosen.figures, chosen.picture)
    else:
        measure(chosen.figures, chosen.minutes, chosen.rate, chosen.seconds)


if __name__ == "__main__":
    main()
