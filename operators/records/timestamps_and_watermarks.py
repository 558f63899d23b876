"""Gives records their event time, and says how far event time has come."""

import time
from typing import Any

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, Operator, Timestamps, Values
from penstock.operators.records.map_records import current


class ExtractTimestampsOperator(Operator):
    """Records get the timestamps that `assigner` extracts.

    Source: pyflink.datastream.data_stream.DataStream.assign_timestamps_and_watermarks, whose operator puts
    out pairs of record and timestamp.
    """

    def __init__(self, assigner: Any) -> None:
        self.assigner = assigner

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Put the values out with their new timestamps."""
        self.output.collect(values, extracted(self, self.assigner, values, timestamps))


class TimestampsAndWatermarksOperator(Operator):
    """Timestamps by the strategy's assigner; watermarks that follow the largest one.

    `strategy` has `timestamp_assigner` (None: records keep the timestamp they have) and
    `out_of_orderness_milliseconds` (None: no watermarks but the last). In STREAMING mode a watermark comes
    every `auto_watermark_interval_milliseconds` of the subtask's own processor time, which for a short input
    is never: results of small jobs then do not depend on how busy the machine is. BATCH mode has none before
    the end. Watermarks from upstream end here, except the last.

    Source: org.apache.flink.streaming.runtime.operators.TimestampsAndWatermarksOperator,
    BoundedOutOfOrdernessWatermarks.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy

    def open(self) -> None:
        """Look up what every list needs."""
        self._lag = self.strategy.out_of_orderness_milliseconds
        self._largest = MIN_WATERMARK
        self._emitted = MIN_WATERMARK
        periodic = self._lag is not None and not self.context.batch
        interval = self.context.auto_watermark_interval_milliseconds
        self._interval_seconds = interval / 1000 if periodic and interval > 0 else None
        self._last_watermark_at = time.thread_time()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Put the values out with their new timestamps, then perhaps a watermark."""
        if self.strategy.timestamp_assigner is not None:
            timestamps = extracted(self, self.strategy.timestamp_assigner, values, timestamps)
        if self._interval_seconds is None:
            self.output.collect(values, timestamps)
            return
        if timestamps is not None:
            stamped = [stamp for stamp in timestamps if stamp is not None]
            self._largest = max(self._largest, max(stamped, default=MIN_WATERMARK))
        self.output.collect(values, timestamps)
        now = time.thread_time()
        if now - self._last_watermark_at >= self._interval_seconds:
            self._last_watermark_at = now
            self._emit()

    def process_watermark(self, watermark: int) -> None:
        """Only the end of the input passes."""
        if watermark == MAX_WATERMARK:
            self.output.watermark(watermark)

    def _emit(self) -> None:
        assert self._lag is not None
        watermark = self._largest - self._lag - 1
        if self._largest != MIN_WATERMARK and watermark > self._emitted:
            self._emitted = watermark
            self.output.watermark(watermark)


def extracted(operator: Operator, assigner: Any, values: Values, timestamps: Timestamps) -> Timestamps:
    """The timestamps that an assigner gives the values, which an operator has with `timestamps`."""
    extract, rest = assigner.extract_timestamp, iter(values)
    try:
        if timestamps is None:
            return _as_longs([extract(value, MIN_WATERMARK) for value in rest])
        before = [MIN_WATERMARK if stamp is None else stamp for stamp in timestamps]
        return _as_longs([extract(value, stamp) for value, stamp in zip(rest, before, strict=True)])
    except BaseException as error:
        raise operator.failed(error, current(values, rest)) from error


def _as_longs(stamps: list[Any]) -> Timestamps:
    """Timestamps, each an int; floats lose their fraction, as in PyFlink. TypeError for anything else."""
    if {int}.issuperset(map(type, stamps)):
        return stamps
    for stamp in stamps:
        if not isinstance(stamp, (int, float)):
            raise TypeError(f"the timestamp assigner gave {stamp!r}: an integer is required")
    return list(map(int, stamps))
