"""Measure the speed of jobs on Spark, each alongside the same work written by hand.

    python -m benchmarks.bench_runs [--repeat N] [--scale F]

All measurements share one session, alternate within each pair, and are reported as medians. They exclude the
start of Spark and include planning and commit of a job. `--scale` multiplies the numbers of records.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.keyed_functions import counted_by_hand, counted_by_key, summed_in_windows
from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.engine.spark.session import get_session
from penstock.operators.connectors.nexmark import NexmarkSource
from penstock.operators.connectors.sink import DiscardSink
from penstock.operators.connectors.source import NumberSequenceSource

BATCH_ROWS = 1 << 16
NUMBERS = pa.schema([("value", pa.int64())])
KEYED = pa.schema([("k", pa.int64()), ("value", pa.int64())])
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def main() -> None:
    """Run, and print a table and one JSON line per measurement."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--only", default="", help="Measure only work whose name contains this.")
    chosen = arguments.parse_args()
    spark = get_session(app_name="bench runs")
    table = Table("work", "records", "Penstock (s)", "by hand (s)", "ratio", "records/s")
    for name, records, own_work, others in _measures(spark, chosen.scale):
        if chosen.only not in name:
            continue
        figures = _measured(name, records, own_work, others, chosen.repeat)
        print(json.dumps(figures), flush=True)
        for other, seconds in figures["beside"].items() or [("", None)]:
            table.add_row(
                name,
                f"{records:,}",
                f"{figures['seconds']:.2f}",
                f"{other}: {seconds:.2f}" if seconds else "",
                f"{seconds / figures['seconds']:.2f}" if seconds else "",
                f"{records / figures['seconds']:,.0f}",
            )
    Console().print(table)
    spark.stop()


Work = Callable[[], Any]


def _measures(spark: SparkSession, scale: float) -> Iterator[tuple[str, int, Work, dict[str, Work]]]:
    rows, many = round(4_000_000 * scale), round(64_000_000 * scale)
    keyed, bids = round(16_000_000 * scale), round(4_000_000 * scale)
    yield (
        "six vectorised operators",
        many,
        lambda: _vectorised(many),
        {"mapInArrow": lambda: _vectorised_by_hand(spark, many)},
    )
    yield (
        "six row functions",
        rows,
        lambda: _row_functions(rows),
        {
            "row loop in mapInArrow": lambda: _row_functions_by_hand(spark, rows),
            "nested calls in mapInArrow": lambda: _nested_by_hand(spark, rows),
        },
    )
    yield (
        "keyed sum, columns",
        keyed,
        lambda: _keyed_sum(keyed),
        {
            "groupBy": lambda: _group_by(spark, keyed),
            "mapInArrow, repartition": lambda: _keyed_by_hand(spark, keyed),
        },
    )
    yield "keyed count, row functions, BATCH", rows, lambda: _keyed_count(rows, "BATCH"), {}
    yield "keyed count, row functions, STREAMING", rows, lambda: _keyed_count(rows, "STREAMING"), {}
    for mode in ("BATCH", "STREAMING"):
        yield (
            f"keyed process function with state, {mode}",
            rows,
            partial(_run_numbers, counted_by_key, rows, mode),
            {"row loop in mapInArrow": partial(counted_by_hand, spark, rows)},
        )
        yield f"windows of event time, {mode}", rows, partial(_run_numbers, summed_in_windows, rows, mode), {}
    for name, query in (("q0", _q0), ("q1", _q1), ("q2", _q2)):
        yield f"Nexmark {name}", bids, partial(query, bids), {}


def _measured(
    name: str, records: int, own_work: Work, others: dict[str, Work], repeat: int
) -> dict[str, Any]:
    seconds_by_work: dict[str, list[float]] = {"": [], **{other: [] for other in others}}
    for round_ in range(repeat + 1):
        for other, work in (("", own_work), *others.items()):
            started = time.monotonic()
            work()
            if round_:  # the first round is a warm-up
                seconds_by_work[other].append(time.monotonic() - started)
    medians = {other: median(seconds) for other, seconds in seconds_by_work.items()}
    return {"work": name, "records": records, "seconds": medians.pop(""), "beside": medians}


def _environment(parallelism: int, mode: str = "STREAMING") -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    return env


def _numbers(env: StreamExecutionEnvironment, count: int) -> DataStream:
    source = NumberSequenceSource(0, count - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())


def _run(env: StreamExecutionEnvironment, stream: DataStream) -> None:
    stream.sink_to(DiscardSink())
    env.execute("bench")


def _add_one(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.add(batch.column(0), 1)], schema=NUMBERS)


def _vectorised(count: int) -> None:
    env = _environment(2)
    stream = _numbers(env, count)
    for _ in range(5):
        stream = stream.map_batches(_add_one, NUMBERS)
    _run(env, stream.filter(pc.field("value") > 10))


def _by_hand(spark: SparkSession, subtasks: int, count: int, work: Callable[[pa.RecordBatch], None]) -> None:
    """Run one mapInArrow over the numbers in batches of BATCH_ROWS, on `subtasks` partitions."""
    share = count // subtasks

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for subtask in batch.column(0).to_pylist():
                for part in _batches(subtask * share, (subtask + 1) * share):
                    work(part)
        yield pa.RecordBatch.from_arrays([pa.array([0])], ["n"])

    spark.range(0, subtasks, 1, subtasks).mapInArrow(run, "n bigint").collect()


def _batches(start: int, end: int) -> Iterator[pa.RecordBatch]:

    for first in range(start, end, BATCH_ROWS):
        values = np.arange(first, min(first + BATCH_ROWS, end))
        yield pa.RecordBatch.from_arrays([pa.array(values)], schema=NUMBERS)


def _vectorised_by_hand(spark: SparkSession, count: int) -> None:
    def work(batch: pa.RecordBatch) -> None:
        for _ in range(5):
            batch = _add_one(batch)
        batch.filter(pc.field("value") > 10)

    _by_hand(spark, 2, count, work)


def _row_functions(count: int) -> None:
    env = _environment(2)
    stream = _numbers(env, count)
    for _ in range(6):
        stream = stream.map(lambda value: value + 1, Types.LONG())
    _run(env, stream)


def _row_functions_by_hand(spark: SparkSession, count: int) -> None:
    functions: list[Callable[[int], int]] = [lambda value: value + 1 for _ in range(6)]

    def work(batch: pa.RecordBatch) -> None:
        results = []
        for value in batch.column(0).to_pylist():
            result = value
            for function in functions:
                result = function(result)
            results.append(result)
        pa.array(results, pa.int64())

    _by_hand(spark, 2, count, work)


def _nested_by_hand(spark: SparkSession, count: int) -> None:
    functions: list[Callable[[int], int]] = [lambda value: value + 1 for _ in range(6)]
    a, b, c, d, e, f = functions

    def work(batch: pa.RecordBatch) -> None:
        pa.array([f(e(d(c(b(a(value)))))) for value in batch.column(0).to_pylist()], pa.int64())

    _by_hand(spark, 2, count, work)


def _key(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column(0)
    keys = pc.subtract(values, pc.multiply(pc.divide(values, 100_000), 100_000))
    return pa.RecordBatch.from_arrays([keys, values], schema=KEYED)


def _keyed_sum(count: int) -> None:
    env = _environment(4, "BATCH")
    stream = _numbers(env, count).map_batches(_key, KEYED)
    _run(env, stream.key_by("k").aggregate([("value", "sum")]))


def _group_by(spark: SparkSession, count: int) -> None:
    rows = spark.range(0, count, 1, 4).select((F.col("id") % 100_000).alias("k"), "id")
    rows.groupBy("k").agg(F.sum("id")).write.format("noop").mode("overwrite").save()


def _keyed_by_hand(spark: SparkSession, count: int) -> None:
    def give(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for subtask in batch.column(0).to_pylist():
                for part in _batches(subtask * (count // 4), (subtask + 1) * (count // 4)):
                    yield _key(part)

    def sums(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batches = list(numbers)
        if batches:
            grouped = pa.Table.from_batches(batches).group_by("k").aggregate([("value", "sum")])
            yield from grouped.combine_chunks().to_batches()

    keyed = spark.range(0, 4, 1, 4).mapInArrow(give, "k bigint, value bigint").repartition(4, "k")
    keyed.mapInArrow(sums, "k bigint, value_sum bigint").write.format("noop").mode("overwrite").save()


def _keyed_count(count: int, mode: str) -> None:
    env = _environment(2, mode)
    pairs = _numbers(env, count).map(lambda value: (value % 1000, 1), PAIR)
    keyed = pairs.key_by(lambda pair: pair[0], Types.LONG())
    _run(env, keyed.reduce(lambda a, b: (a[0], a[1] + b[1])))


def _run_numbers(work: Callable[[DataStream], DataStream], count: int, mode: str) -> None:
    env = _environment(2, mode)
    _run(env, work(_numbers(env, count)))


def _bids(env: StreamExecutionEnvironment, events: int) -> DataStream:
    return env.from_source(NexmarkSource("bid", events), WatermarkStrategy.no_watermarks(), "bids")


def _q0(events: int) -> None:
    env = _environment(2)
    _run(env, _bids(env, events).map_batches(lambda batch: batch))


def _q1(events: int) -> None:
    def euros(batch: pa.RecordBatch) -> pa.RecordBatch:
        at = batch.schema.get_field_index("price")
        euro_cents = pc.multiply(pc.cast(batch.column(at), pa.float64()), 0.908)
        price = pc.cast(pc.floor(euro_cents), pa.int64())
        return batch.set_column(at, batch.schema.field(at), price)

    env = _environment(2)
    _run(env, _bids(env, events).map_batches(euros))


def _q2(events: int) -> None:
    def chosen(batch: pa.RecordBatch) -> pa.RecordBatch:
        auction = batch.column(batch.schema.get_field_index("auction"))
        rest = pc.subtract(auction, pc.multiply(pc.divide(auction, 123), 123))
        return batch.filter(pc.equal(rest, 0))

    env = _environment(2)
    _run(env, _bids(env, events).map_batches(chosen))


if __name__ == "__main__":
    main()
