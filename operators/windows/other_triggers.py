"""The triggers that count, that purge what another one fires, and that never fire.

Source: pyflink.datastream.window;
org.apache.flink.streaming.api.windowing.triggers.{CountTrigger,PurgingTrigger},
org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.NeverTrigger.
"""

from operator import add
from typing import Any, TypeVar

from penstock.operators.common.typeinfo import Types
from penstock.operators.state.descriptors import ReducingStateDescriptor
from penstock.operators.windows.trigger import Trigger, TriggerResult, require_trigger_result
from penstock.operators.windows.window import CountWindow, GlobalWindow, Window

T = TypeVar("T")


class CountTrigger(Trigger[T, CountWindow]):
    """Fires at every `window_size`-th record of a window."""

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_state_descriptor = ReducingStateDescriptor("count", add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> "CountTrigger[T]":
        """A trigger that fires at this many records."""
        return CountTrigger(window_size)

    def on_element(
        self, element: T, timestamp: int, window: CountWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Count; fire and start again at the size."""
        count = ctx.get_partitioned_state(self._count_state_descriptor)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(
        self, time: int, window: CountWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: CountWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: CountWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count_state_descriptor)

    def clear(self, window: CountWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count_state_descriptor).clear()


class PurgingTrigger(Trigger[T, Window]):
    """Does what another trigger does, and drops the contents of a window whenever that one fires."""

    def __init__(self, nested_trigger: Trigger[T, Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, Any]) -> "PurgingTrigger[T]":
        """The purging form of a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """The nested trigger's result, with FIRE_AND_PURGE for FIRE."""
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        return _purging(require_trigger_result(result, self.nested_trigger, "on_element"))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """The nested trigger's result, with FIRE_AND_PURGE for FIRE."""
        result = self.nested_trigger.on_event_time(time, window, ctx)
        return _purging(require_trigger_result(result, self.nested_trigger, "on_event_time"))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """The nested trigger's result, with FIRE_AND_PURGE for FIRE."""
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        return _purging(require_trigger_result(result, self.nested_trigger, "on_processing_time"))

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """Merge the nested trigger's state."""
        self.nested_trigger.on_merge(window, ctx)


class NeverTrigger(Trigger[T, GlobalWindow]):
    """Never fires."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        """Nothing to merge."""

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        """Nothing to clear."""


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
