"""Functions with keyed state and windows, and the same work in a handwritten loop."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.pyflink.common import Duration, Time, Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import KeyedProcessFunction, RuntimeContext
from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.operators.common.time import TimestampAssigner
from penstock.operators.state.interfaces import ValueStateDescriptor
from penstock.operators.windows.assigners import TumblingEventTimeWindows

KEYS = 1_000
ROWS_OF_A_BATCH = 1 << 14
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
"""A record and a count."""

_SUBTASKS = 2


class CountOfKey(KeyedProcessFunction):
    """Yields each record with the count of its key's records so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Create a count for each key."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        """Count the record."""
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


class AtMilliseconds(TimestampAssigner):
    """Assigns millisecond n to record n."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        """Return the record itself."""
        return value


def counted_by_key(numbers: DataStream) -> DataStream:
    """Apply CountOfKey to numbers with KEYS keys."""
    return numbers.key_by(lambda value: value % KEYS, Types.LONG()).process(CountOfKey(), PAIR)


def summed_in_windows(numbers: DataStream) -> DataStream:
    """Return sums of numbers by key and 100 seconds of event time."""
    late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
    timed = numbers.assign_timestamps_and_watermarks(late.with_timestamp_assigner(AtMilliseconds()))
    keyed = timed.key_by(lambda value: value % KEYS, Types.LONG())
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(100))).reduce(lambda a, b: a + b)


def counted_by_hand(spark: SparkSession, count: int) -> None:
    """Do the work of counted_by_key in two functions and an exchange; a dict is the state.

    Nothing is checked.
    """
    share = count // _SUBTASKS

    def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for subtask in batch.column(0).to_pylist():
                for first in range(subtask * share, (subtask + 1) * share, ROWS_OF_A_BATCH):
                    values = range(first, min(first + ROWS_OF_A_BATCH, (subtask + 1) * share))
                    keys = [value % KEYS for value in values]
                    yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.array(values))], ["k", "v"])

    counts: dict[int, int] = defaultdict(int)

    def counted(key: int, value: int) -> Iterator[tuple[int, int]]:
        count = counts[key] + 1
        counts[key] = count
        yield value, count

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results: list[tuple[int, int]] = []
            for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                results.extend(counted(key, value))
            values, numbers = zip(*results, strict=True) if results else ((), ())
            columns = [pa.array(values, pa.int64()), pa.array(numbers, pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, ["value", "count"])

    keyed = (
        spark.range(0, _SUBTASKS, 1, _SUBTASKS).mapInArrow(give, "k long, v long").repartition(_SUBTASKS, "k")
    )
    keyed.mapInArrow(work, "value long, count long").write.format("noop").mode("overwrite").save()
