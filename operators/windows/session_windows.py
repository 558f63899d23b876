"""The assigners of sessions: windows that end when a key has been silent for a gap.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
{EventTimeSessionWindows,ProcessingTimeSessionWindows,DynamicEventTimeSessionWindows,DynamicProcessingTimeSessionWindows}.
"""

from typing import TypeVar

from penstock.operators.common.time import Time
from penstock.operators.windows.assigner import SessionWindowTimeGapExtractor, WindowAssigner
from penstock.operators.windows.time_assigners import (
    EventTimeAssigner,
    MergingTimeAssigner,
    ProcessingTimeAssigner,
)
from penstock.operators.windows.window import TimeWindow

T = TypeVar("T")


class ProcessingTimeSessionWindows(MergingTimeAssigner[T], ProcessingTimeAssigner[T]):
    """Sessions by the clock that end `session_gap` milliseconds after their last record."""

    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise Exception("ProcessingTimeSessionWindows: the gap has to be more than 0")
        self._session_gap = session_gap

    @staticmethod
    def with_gap(size: Time) -> "ProcessingTimeSessionWindows[T]":
        """Sessions with this gap. Raises Exception unless it is more than 0."""
        return ProcessingTimeSessionWindows(size.to_milliseconds())

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> "DynamicProcessingTimeSessionWindows[T]":
        """Sessions with a gap of each record's own."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """A window from the current time to a gap after it."""
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self._session_gap)]

    def __repr__(self) -> str:
        return f"ProcessingTimeSessionWindows({self._session_gap})"


class EventTimeSessionWindows(MergingTimeAssigner[T], EventTimeAssigner[T]):
    """Sessions by the records' timestamps that end `session_gap` milliseconds after their last record."""

    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise Exception("EventTimeSessionWindows: the gap has to be more than 0")
        self._session_gap = session_gap

    @staticmethod
    def with_gap(size: Time) -> "EventTimeSessionWindows[T]":
        """Sessions with this gap. Raises Exception unless it is more than 0."""
        return EventTimeSessionWindows(size.to_milliseconds())

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows[T]":
        """Sessions with a gap of each record's own."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """A window from the timestamp to a gap after it."""
        return [TimeWindow(timestamp, timestamp + self._session_gap)]

    def __repr__(self) -> str:
        return f"EventTimeSessionWindows({self._session_gap})"


class DynamicProcessingTimeSessionWindows(MergingTimeAssigner[T], ProcessingTimeAssigner[T]):
    """Sessions by the clock, with a gap of each record's own."""

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._session_gap = 0
        self._session_window_time_gap_extractor = session_window_time_gap_extractor

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> "DynamicProcessingTimeSessionWindows[T]":
        """Sessions with the gaps that `extractor` finds."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """A window of the record's gap from the current time on. Raises Exception unless it is positive."""
        now = context.get_current_processing_time()
        self._session_gap = _positive(self._session_window_time_gap_extractor.extract(element))
        return [TimeWindow(now, now + self._session_gap)]

    def __repr__(self) -> str:
        return f"DynamicProcessingTimeSessionWindows({self._session_gap})"


class DynamicEventTimeSessionWindows(MergingTimeAssigner[T], EventTimeAssigner[T]):
    """Sessions by the records' timestamps, with a gap of each record's own."""

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        self._session_gap = 0
        self._session_window_time_gap_extractor = session_window_time_gap_extractor

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> "DynamicEventTimeSessionWindows[T]":
        """Sessions with the gaps that `extractor` finds."""
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        """A window of the record's gap from the timestamp on. Raises Exception unless it is positive."""
        return [TimeWindow(timestamp, timestamp + self.gap_of(element))]

    def gap_of(self, element: T) -> int:
        """The record's gap, milliseconds. Raises Exception: 0 or less."""
        self._session_gap = _positive(self._session_window_time_gap_extractor.extract(element))
        return self._session_gap

    def __repr__(self) -> str:
        return f"DynamicEventTimeSessionWindows({self._session_gap})"


def _positive(gap: int) -> int:
    if gap <= 0:
        raise Exception(f"The gap of a session has to be more than 0, and is {gap}")
    return gap
