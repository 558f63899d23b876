"""Time batches without rows: a keyed count by `penstock.foreach_batch`, in turn with plain Spark.

    python -m benchmarks.stream_latency [BATCHES] [--profile N]

Two queries of one session read folders of their own. After some batches with rows, each gets BATCHES files
without a row, in turn. One query counts by key, exactly once into files. The other one has two `mapInArrow`
with a shuffle between them, and discards its rows. Prints the medians of a batch (`triggerExecution` in its
progress) and of foreachBatch (`addBatch`), and their ratios. --profile prints the N functions of the driver
that took most time.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import penstock
from penstock.common import Row, Types
from penstock.connectors import JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor

_BATCHES_BEFORE, _KEYS = 6, 1_000
_COUNT = Types.ROW_NAMED(["key", "count"], [Types.STRING(), Types.LONG()])
_PARTS = ("triggerExecution", "addBatch")


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Yield the key and its count."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(value.key, count)


def main() -> None:
    """Print the medians."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("batches", type=int, nargs="?", default=60)
    arguments.add_argument("--profile", type=int, default=0, metavar="N")
    chosen = arguments.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory(prefix="penstock-stream-latency-") as place:
        folder = Path(place)
        profile = cProfile.Profile() if chosen.profile else None
        sides = {"penstock": _counted(folder, profile), "plain Spark": _plain}
        queries = {name: _started(spark, folder / name, function) for name, function in sides.items()}
        text = "".join(json.dumps({"key": f"key{key}"}) + "\n" for key in range(_KEYS))
        for number in range(_BATCHES_BEFORE):
            for name, query in queries.items():
                _batch(query, folder / name, number, text)
        times: dict[str, list[dict[str, int]]] = {name: [] for name in sides}
        for number in range(_BATCHES_BEFORE, _BATCHES_BEFORE + chosen.batches):
            for name, query in queries.items():
                times[name].append(_batch(query, folder / name, number, "\n"))
        for query in queries.values():
            query.stop()
    medians = {
        name: {part: statistics.median(time[part] for time in all_times) for part in _PARTS}
        for name, all_times in times.items()
    }
    for part in _PARTS:
        ours, plain = (medians[name][part] for name in sides)
        print(f"{part}: p50 {ours:.0f} ms, plain Spark {plain:.0f} ms, ratio {ours / plain:.2f}")
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(chosen.profile)


def _counted(folder: Path, profile: cProfile.Profile | None) -> Callable[[DataFrame, int], None]:
    def build(records: Any) -> None:
        records.process(Count(), _COUNT).uid("count").sink_to(JsonLinesSink(str(folder / "counts"), _COUNT))

    function = penstock.foreach_batch(build, state=folder / "state", key="key", parallelism=2)

    def run(df: DataFrame, batch_id: int) -> None:
        if profile is None or batch_id < _BATCHES_BEFORE:
            function(df, batch_id)
        else:
            profile.runcall(function, df, batch_id)

    return run


def _plain(df: DataFrame, batch_id: int) -> None:
    schema = "key string"
    first = df.mapInArrow(_unchanged, schema).repartition(2, "key")
    first.mapInArrow(_unchanged, schema).write.format("noop").mode("append").save()


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _started(spark: SparkSession, folder: Path, function: Callable[[DataFrame, int], None]) -> StreamingQuery:
    folder.mkdir()
    records = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(str(folder))
    writer = records.writeStream.foreachBatch(function).trigger(processingTime="200 milliseconds")
    return writer.option("checkpointLocation", f"{folder} checkpoint").start()


def _batch(query: StreamingQuery, folder: Path, number: int, text: str) -> dict[str, int]:
    """Add a file, wait for its batch, and return the milliseconds of the batch by part."""
    unfinished = folder.parent / "unfinished"
    unfinished.write_text(text)
    unfinished.rename(folder / f"{number:06d}.json")
    query.processAllAvailable()
    progress = next(progress for progress in reversed(query.recentProgress) if progress["batchId"] == number)
    return {part: progress["durationMs"][part] for part in _PARTS}


if __name__ == "__main__":
    main()
