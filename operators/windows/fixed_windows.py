"""The assigners of windows of one size: tumbling and sliding, by event time and by processing time.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
{TumblingEventTimeWindows,TumblingProcessingTimeWindows,SlidingEventTimeWindows,SlidingProcessingTimeWindows}.
"""

from math import gcd
from typing import TypeVar

from penstock.operators.chain.operator import MIN_WATERMARK
from penstock.operators.common.time import Time
from penstock.operators.windows.assigner import WindowAssigner, no_timestamp
from penstock.operators.windows.time_assigners import EventTimeAssigner, ProcessingTimeAssigner
from penstock.operators.windows.window import TimeWindow

T = TypeVar("T")


class TumblingProcessingTimeWindows(ProcessingTimeAssigner[T]):
    """Windows of `size` that do not overlap, by the clock; `offset` shifts their starts (milliseconds)."""

    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            raise Exception("TumblingProcessingTimeWindows: abs(offset) has to be less than size")
        self._size = size
        self._offset = offset

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingProcessingTimeWindows[T]":
        """Windows of this size. Raises Exception unless abs(offset) < size."""
        return TumblingProcessingTimeWindows(size.to_milliseconds(), _milliseconds(offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """The window that holds the current time."""
        now = context.get_current_processing_time()
        start = TimeWindow.get_window_start_with_offset(now, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"TumblingProcessingTimeWindows({self._size}, {self._offset})"


class TumblingEventTimeWindows(EventTimeAssigner[T]):
    """Windows of `size` that do not overlap, by the records' timestamps; `offset` shifts their starts."""

    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            raise Exception("TumblingEventTimeWindows: abs(offset) has to be less than size")
        self._size = size
        self._offset = offset

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingEventTimeWindows[T]":
        """Windows of this size. Raises Exception unless abs(offset) < size."""
        return TumblingEventTimeWindows(size.to_milliseconds(), _milliseconds(offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """The window that holds the timestamp. Raises Exception if there is none."""
        if timestamp <= MIN_WATERMARK:
            raise no_timestamp()
        start = TimeWindow.get_window_start_with_offset(timestamp, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"TumblingEventTimeWindows({self._size}, {self._offset})"


class SlidingProcessingTimeWindows(ProcessingTimeAssigner[T]):
    """Windows of `size`, one every `slide`, by the clock; `offset` shifts their starts (milliseconds)."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if abs(offset) >= slide or size <= 0:
            raise Exception(
                "SlidingProcessingTimeWindows: abs(offset) has to be less than slide, size more than 0"
            )
        self._size = size
        self._slide = slide
        self._offset = offset
        self._pane_size = gcd(size, slide)

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingProcessingTimeWindows[T]":
        """Windows of this size and slide. Raises Exception unless abs(offset) < slide and size > 0."""
        return SlidingProcessingTimeWindows(
            size.to_milliseconds(), slide.to_milliseconds(), _milliseconds(offset)
        )

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """The windows that hold the current time, the latest first."""
        now = context.get_current_processing_time()
        return _sliding_windows(now, self._size, self._slide, self._offset)

    def __repr__(self) -> str:
        return f"SlidingProcessingTimeWindows({self._size}, {self._slide}, {self._offset})"


class SlidingEventTimeWindows(EventTimeAssigner[T]):
    """Windows of `size`, one every `slide`, by the records' timestamps; `offset` shifts their starts."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if abs(offset) >= slide or size <= 0:
            raise Exception(
                "SlidingEventTimeWindows: abs(offset) has to be less than slide, size more than 0"
            )
        self._size = size
        self._slide = slide
        self._offset = offset
        self._pane_size = gcd(size, slide)

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingEventTimeWindows[T]":
        """Windows of this size and slide. Raises Exception unless abs(offset) < slide and size > 0."""
        return SlidingEventTimeWindows(size.to_milliseconds(), slide.to_milliseconds(), _milliseconds(offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """The windows that hold the timestamp, the latest first. Raises Exception if there is none."""
        if timestamp <= MIN_WATERMARK:
            raise no_timestamp()
        return _sliding_windows(timestamp, self._size, self._slide, self._offset)

    def __repr__(self) -> str:
        return f"SlidingEventTimeWindows({self._size}, {self._slide}, {self._offset})"


def _sliding_windows(timestamp: int, size: int, slide: int, offset: int) -> list[TimeWindow]:
    latest = TimeWindow.get_window_start_with_offset(timestamp, offset, slide)
    return [TimeWindow(start, start + size) for start in range(latest, timestamp - size, -slide)]


def _milliseconds(offset: Time | None) -> int:
    return 0 if offset is None else offset.to_milliseconds()
