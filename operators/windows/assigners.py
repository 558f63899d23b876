"""Assigners of tumbling, sliding, session, count and global windows.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
{TumblingEventTimeWindows,TumblingProcessingTimeWindows,SlidingEventTimeWindows,SlidingProcessingTimeWindows}.
"""

from collections.abc import Iterable
from typing import Any

from penstock.operators.chain.operator import MIN_WATERMARK
from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.state.interfaces import ValueStateDescriptor
from penstock.operators.windows.trigger import (
    MergingWindowAssigner,
    SessionWindowTimeGapExtractor,
    T,
    WindowAssigner,
    no_timestamp,
)
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from penstock.operators.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)

# Assigners of tumbling and sliding count windows, and of the global window
#
# Source: pyflink.datastream.window (which counts in the key's state; the Java API has triggers and evictors
# for it); org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.


class CountTumblingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of a number of records of a key that do not overlap.

    The key's state counts the records. The default trigger fires at a window's last record.

    Args:
        window_size: Records in a window, 1 or more.
    """

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_descriptor = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> "CountTumblingWindowAssigner[T]":
        """Make an assigner.

        Args:
            window_size: Records in a window, 1 or more.

        Returns:
            CountTumblingWindowAssigner: The assigner.
        """
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        return [CountWindow(_next_number(context, self._count_descriptor) // self._window_size)]

    def get_default_trigger(self, env: Any) -> CountTrigger[T]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of a number of records of a key that start at regular intervals.

    Window i starts at record i * `window_slide`; unlike in Java's API, no window starts before the first
    record. The key's state counts the records. The default trigger fires each time a window has received
    `window_size` records.

    Args:
        window_size: Records in a window, 1 or more.
        window_slide: Records from one start to the next, 1 or more.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = window_size
        self._window_slide = window_slide
        self._count_descriptor = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> "CountSlidingWindowAssigner[T]":
        """Make an assigner.

        Args:
            window_size: Records in a window, 1 or more.
            window_slide: Records from one start to the next.

        Returns:
            CountSlidingWindowAssigner: The assigner.
        """
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        number = _next_number(context, self._count_descriptor)
        latest = number // self._window_slide
        # the first i with i * slide + size > number
        earliest = max(0, (number - self._window_size) // self._window_slide + 1)
        return [CountWindow(i) for i in range(latest, earliest - 1, -1)]

    def get_default_trigger(self, env: Any) -> CountTrigger[T]:
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """One window for all records of a key; it needs a trigger, since its own never fires."""

    @staticmethod
    def create() -> "GlobalWindows[T]":
        """Make an assigner.

        Returns:
            GlobalWindows: The assigner.
        """
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[GlobalWindow]:
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> NeverTrigger[T]:
        return NeverTrigger()

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


def _next_number(context: WindowAssigner.WindowAssignerContext, descriptor: ValueStateDescriptor) -> int:
    """Return the number of earlier records of the key, and count this one."""
    state = context.get_runtime_context().get_state(descriptor)
    number: int = state.value() or 0
    state.update(number + 1)
    return number


# The common base of assigners of time windows: trigger, serializer and merging


class EventTimeAssigner(WindowAssigner[T, TimeWindow]):
    """An assigner of time windows that end by the watermark; EventTimeTrigger by default."""

    def get_default_trigger(self, env: Any) -> EventTimeTrigger[T]:
        return EventTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(WindowAssigner[T, TimeWindow]):
    """An assigner of time windows that end by the clock; ProcessingTimeTrigger by default."""

    def get_default_trigger(self, env: Any) -> ProcessingTimeTrigger[T]:
        return ProcessingTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class MergingTimeAssigner(MergingWindowAssigner[T, TimeWindow]):
    """An assigner of time windows that merge when they overlap or touch."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


# Assigners of sessions: windows that end when a key has been silent for a gap
#
# Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
# {EventTimeSessionWindows, ProcessingTimeSessionWindows, DynamicEventTimeSessionWindows,
# DynamicProcessingTimeSessionWindows}.


class ProcessingTimeSessionWindows(MergingTimeAssigner[T], ProcessingTimeAssigner[T]):
    """Sessions by the clock, which end once a key has had no record for a fixed gap.

    A record opens a window from the current time to one gap later; windows that overlap or touch merge.

    Args:
        session_gap: Milliseconds, above 0.

    Raises:
        Exception: Not above 0.
    """

    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise Exception("ProcessingTimeSessionWindows: the gap must be above 0")
        self._session_gap = session_gap

    @staticmethod
    def with_gap(size: Time) -> "ProcessingTimeSessionWindows[T]":
        """Make an assigner with one gap.

        Args:
            size: Time without a record that ends a session: a Time, above 0.

        Returns:
            ProcessingTimeSessionWindows: The assigner.

        Raises:
            Exception: Not above 0.
        """
        return ProcessingTimeSessionWindows(size.to_milliseconds())

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> "DynamicProcessingTimeSessionWindows[T]":
        """Make an assigner with a gap of each record's own.

        Args:
            extractor: A SessionWindowTimeGapExtractor.

        Returns:
            DynamicProcessingTimeSessionWindows: The assigner.
        """
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self._session_gap)]

    def __repr__(self) -> str:
        return f"ProcessingTimeSessionWindows({self._session_gap})"


class EventTimeSessionWindows(MergingTimeAssigner[T], EventTimeAssigner[T]):
    """Sessions by the records' timestamps, which end once a key has had no record for a fixed gap.

    A record opens a window from its timestamp to one gap later; windows that overlap or touch merge.

    Args:
        session_gap: Milliseconds, above 0.

    Raises:
        Exception: Not above 0.

    Examples:
        >>> from penstock.common import Time
        >>> from penstock.datastream.window import EventTimeSessionWindows
        >>> EventTimeSessionWindows.with_gap(Time.minutes(30)).assign_windows("click", 5, None)
        [TimeWindow(start=5, end=1800005)]
    """

    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise Exception("EventTimeSessionWindows: the gap must be above 0")
        self._session_gap = session_gap

    @staticmethod
    def with_gap(size: Time) -> "EventTimeSessionWindows[T]":
        """Make an assigner with one gap.

        Args:
            size: Time without a record that ends a session: a Time, above 0.

        Returns:
            EventTimeSessionWindows: The assigner.

        Raises:
            Exception: Not above 0.
        """
        return EventTimeSessionWindows(size.to_milliseconds())

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows[T]":
        """Make an assigner with a gap of each record's own.

        Args:
            extractor: A SessionWindowTimeGapExtractor.

        Returns:
            DynamicEventTimeSessionWindows: The assigner.
        """
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + self._session_gap)]

    def __repr__(self) -> str:
        return f"EventTimeSessionWindows({self._session_gap})"


class DynamicProcessingTimeSessionWindows(MergingTimeAssigner[T], ProcessingTimeAssigner[T]):
    """Sessions by the clock, with a gap of each record's own.

    A record whose gap is not above 0 fails the job.

    Args:
        session_window_time_gap_extractor: A SessionWindowTimeGapExtractor.
    """

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._session_gap = 0
        self._session_window_time_gap_extractor = session_window_time_gap_extractor

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> "DynamicProcessingTimeSessionWindows[T]":
        """Make an assigner.

        Args:
            extractor: A SessionWindowTimeGapExtractor.

        Returns:
            DynamicProcessingTimeSessionWindows: The assigner.
        """
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        self._session_gap = _positive(self._session_window_time_gap_extractor.extract(element))
        return [TimeWindow(now, now + self._session_gap)]

    def __repr__(self) -> str:
        return f"DynamicProcessingTimeSessionWindows({self._session_gap})"


class DynamicEventTimeSessionWindows(MergingTimeAssigner[T], EventTimeAssigner[T]):
    """Sessions by the records' timestamps, with a gap of each record's own.

    A record whose gap is not above 0 fails the job.

    Args:
        session_window_time_gap_extractor: A SessionWindowTimeGapExtractor.
    """

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._session_gap = 0
        self._session_window_time_gap_extractor = session_window_time_gap_extractor

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows[T]":
        """Make an assigner.

        Args:
            extractor: A SessionWindowTimeGapExtractor.

        Returns:
            DynamicEventTimeSessionWindows: The assigner.
        """
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return [TimeWindow(timestamp, timestamp + self.gap_of(element))]

    def gap_of(self, element: T) -> int:
        """Return the gap that the extractor gives a record.

        Args:
            element: The record.

        Returns:
            int: Milliseconds, above 0.

        Raises:
            Exception: The extractor returned 0 or less.
        """
        self._session_gap = _positive(self._session_window_time_gap_extractor.extract(element))
        return self._session_gap

    def __repr__(self) -> str:
        return f"DynamicEventTimeSessionWindows({self._session_gap})"


def _positive(gap: int) -> int:
    if gap <= 0:
        raise Exception(f"The gap of a session must be above 0, got {gap}")
    return gap


class TumblingProcessingTimeWindows(ProcessingTimeAssigner[T]):
    """Windows of one size that do not overlap, by the clock.

    Args:
        size: Length of a window in milliseconds, above 0.
        offset: Shift of the starts in milliseconds; its absolute value is below `size`.

    Raises:
        Exception: Out of range.
    """

    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            raise Exception("TumblingProcessingTimeWindows: abs(offset) must be below size")
        self._size = size
        self._offset = offset

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingProcessingTimeWindows[T]":
        """Make an assigner.

        Args:
            size: Length of a window: a Time, above 0.
            offset: Shift of the starts: a Time, less than `size`.

        Returns:
            TumblingProcessingTimeWindows: The assigner.

        Raises:
            Exception: Out of range.
        """
        return TumblingProcessingTimeWindows(size.to_milliseconds(), _milliseconds(offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        start = TimeWindow.get_window_start_with_offset(now, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"TumblingProcessingTimeWindows({self._size}, {self._offset})"


class TumblingEventTimeWindows(EventTimeAssigner[T]):
    """Windows of one size that do not overlap, by the records' timestamps.

    A record without a timestamp fails the job.

    Args:
        size: Length of a window in milliseconds, above 0.
        offset: Shift of the starts in milliseconds; its absolute value is below `size`.

    Raises:
        Exception: Out of range.

    Examples:
        >>> from penstock.common import Time
        >>> from penstock.datastream.window import TumblingEventTimeWindows
        >>> TumblingEventTimeWindows.of(Time.minutes(5)).assign_windows("click", 310_000, None)
        [TimeWindow(start=300000, end=600000)]
    """

    def __init__(self, size: int, offset: int) -> None:
        if abs(offset) >= size:
            raise Exception("TumblingEventTimeWindows: abs(offset) must be below size")
        self._size = size
        self._offset = offset

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> "TumblingEventTimeWindows[T]":
        """Make an assigner.

        Args:
            size: Length of a window: a Time, above 0.
            offset: Shift of the starts: a Time, less than `size`.

        Returns:
            TumblingEventTimeWindows: The assigner.

        Raises:
            Exception: Out of range.
        """
        return TumblingEventTimeWindows(size.to_milliseconds(), _milliseconds(offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if timestamp <= MIN_WATERMARK:
            raise no_timestamp()
        start = TimeWindow.get_window_start_with_offset(timestamp, self._offset, self._size)
        return [TimeWindow(start, start + self._size)]

    def __repr__(self) -> str:
        return f"TumblingEventTimeWindows({self._size}, {self._offset})"


class SlidingProcessingTimeWindows(ProcessingTimeAssigner[T]):
    """Windows of one size that start at regular intervals, by the clock.

    Args:
        size: Length of a window in milliseconds, above 0.
        slide: Milliseconds from one start to the next, above 0.
        offset: Shift of the starts in milliseconds; its absolute value is below `slide`.

    Raises:
        Exception: Out of range.
    """

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if abs(offset) >= slide or size <= 0:
            raise Exception("SlidingProcessingTimeWindows: abs(offset) must be below slide, size above 0")
        self._size = size
        self._slide = slide
        self._offset = offset

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingProcessingTimeWindows[T]":
        """Make an assigner.

        Args:
            size: Length of a window: a Time, above 0.
            slide: Time from one start to the next.
            offset: Shift of the starts: a Time, less than `slide`.

        Returns:
            SlidingProcessingTimeWindows: The assigner.

        Raises:
            Exception: Out of range.
        """
        return SlidingProcessingTimeWindows(
            size.to_milliseconds(), slide.to_milliseconds(), _milliseconds(offset)
        )

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        return _sliding_windows(now, self._size, self._slide, self._offset)

    def __repr__(self) -> str:
        return f"SlidingProcessingTimeWindows({self._size}, {self._slide}, {self._offset})"


class SlidingEventTimeWindows(EventTimeAssigner[T]):
    """Windows of one size that start at regular intervals, by the records' timestamps.

    A record without a timestamp fails the job.

    Args:
        size: Length of a window in milliseconds, above 0.
        slide: Milliseconds from one start to the next, above 0.
        offset: Shift of the starts in milliseconds; its absolute value is below `slide`.

    Raises:
        Exception: Out of range.

    Examples:
        >>> from penstock.common import Time
        >>> from penstock.datastream.window import SlidingEventTimeWindows
        >>> windows = SlidingEventTimeWindows.of(size=Time.seconds(10), slide=Time.seconds(5))
        >>> windows.assign_windows("click", 12_000, None)
        [TimeWindow(start=10000, end=20000), TimeWindow(start=5000, end=15000)]
    """

    def __init__(self, size: int, slide: int, offset: int) -> None:
        if abs(offset) >= slide or size <= 0:
            raise Exception("SlidingEventTimeWindows: abs(offset) must be below slide, size above 0")
        self._size = size
        self._slide = slide
        self._offset = offset

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> "SlidingEventTimeWindows[T]":
        """Make an assigner.

        Args:
            size: Length of a window: a Time, above 0.
            slide: Time from one start to the next.
            offset: Shift of the starts: a Time, less than `slide`.

        Returns:
            SlidingEventTimeWindows: The assigner.

        Raises:
            Exception: Out of range.
        """
        return SlidingEventTimeWindows(size.to_milliseconds(), slide.to_milliseconds(), _milliseconds(offset))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
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
