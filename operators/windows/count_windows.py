"""The assigners that count: tumbling and sliding count windows; and the one that puts all into one window.

Source: pyflink.datastream.window (which counts in the key's state; the Java API has triggers and evictors for
it); org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.
"""

from operator import add
from typing import Any, TypeVar

from penstock.operators.common.typeinfo import Types
from penstock.operators.state.interfaces import ReducingStateDescriptor, ValueStateDescriptor
from penstock.operators.windows.trigger import Trigger, TriggerResult, WindowAssigner, require_trigger_result
from penstock.operators.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    Window,
)

# The triggers that count, that purge what another one fires, and that never fire.
#
# Source: pyflink.datastream.window;
# org.apache.flink.streaming.api.windowing.triggers.{CountTrigger,PurgingTrigger},
# org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.NeverTrigger.


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


class CountTumblingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of `window_size` records of a key, one after the other."""

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_descriptor = ValueStateDescriptor("tumble-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int) -> "CountTumblingWindowAssigner[T]":
        """Windows of this many records."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        """The window whose turn it is; counts the record in the key's state."""
        return [CountWindow(_next_number(context, self._count_descriptor) // self._window_size)]

    def get_default_trigger(self, env: Any) -> CountTrigger[T]:
        """At the window's last record."""
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of `window_size` records of a key, one every `window_slide` records.

    Window number i starts at record i * `window_slide`, so that there are no windows that began before the
    first record, unlike those of the Java API.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        self._window_size = window_size
        self._window_slide = window_slide
        self._count_descriptor = ValueStateDescriptor("slide-count-assigner", Types.LONG())

    @staticmethod
    def of(window_size: int, window_slide: int) -> "CountSlidingWindowAssigner[T]":
        """Windows of `window_size` records, one every `window_slide` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        """The windows that the record falls into, the latest first; counts it in the key's state."""
        number = _next_number(context, self._count_descriptor)
        latest = number // self._window_slide
        # The first i with i * slide + size > number.
        earliest = max(0, (number - self._window_size) // self._window_slide + 1)
        return [CountWindow(i) for i in range(latest, earliest - 1, -1)]

    def get_default_trigger(self, env: Any) -> CountTrigger[T]:
        """At the window's last record."""
        return CountTrigger(self._window_size)

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """One window for all records of a key; needs a trigger, as its own never fires."""

    @staticmethod
    def create() -> "GlobalWindows[T]":
        """A global assigner."""
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
    """The number of earlier records of the key."""
    state = context.get_runtime_context().get_state(descriptor)
    number: int = state.value() or 0
    state.update(number + 1)
    return number
