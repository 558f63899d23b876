"""The common base of assigners of time windows: trigger, serializer and merging."""

from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.operators.windows.assigner import MergingWindowAssigner, WindowAssigner
from penstock.operators.windows.serializers import TimeWindowSerializer
from penstock.operators.windows.time_triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock.operators.windows.window import TimeWindow

T = TypeVar("T")


class EventTimeAssigner(WindowAssigner[T, TimeWindow]):
    """An assigner of time windows that end by the watermark."""

    def get_default_trigger(self, env: Any) -> EventTimeTrigger[T]:
        """At the window's end, by the watermark."""
        return EventTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeAssigner(WindowAssigner[T, TimeWindow]):
    """An assigner of time windows that end by the clock."""

    def get_default_trigger(self, env: Any) -> ProcessingTimeTrigger[T]:
        """At the window's end, by the clock."""
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
        """Merge what overlaps or touches."""
        TimeWindow.merge_windows(windows, callback)
