"""Triggers of windows, as PyFlink has them."""

from operator import add
from typing import Any

from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import ReduceFunction
from penstock.operators.state.interfaces import ReducingStateDescriptor
from penstock.operators.windows.trigger import T, Trigger, TriggerResult, require_trigger_result
from penstock.operators.windows.window import CountWindow, GlobalWindow, TimeWindow, Window

# Triggers that count, that purge after another trigger fires, and that never fire
#
# Source: pyflink.datastream.window;
# org.apache.flink.streaming.api.windowing.triggers.{CountTrigger,PurgingTrigger},
# org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.NeverTrigger.


class CountTrigger(Trigger[T, CountWindow]):
    """Fires when a window has a number of records, and starts counting again.

    Args:
        window_size: Number of records, 1 or more.
    """

    def __init__(self, window_size: int) -> None:
        self._window_size = window_size
        self._count_state_descriptor = ReducingStateDescriptor("count", add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> "CountTrigger[T]":
        """Make a trigger.

        Args:
            window_size: Fires at this many records, 1 or more.

        Returns:
            CountTrigger: The trigger.
        """
        return CountTrigger(window_size)

    def on_element(
        self, element: T, timestamp: int, window: CountWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
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
    """Fires as another trigger, and drops the window's contents when it fires.

    Args:
        nested_trigger: The other trigger.
    """

    def __init__(self, nested_trigger: Trigger[T, Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, Any]) -> "PurgingTrigger[T]":
        """Make a trigger.

        Args:
            nested_trigger: The other trigger.

        Returns:
            PurgingTrigger: The trigger.
        """
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        return _purging(require_trigger_result(result, self.nested_trigger, "on_element"))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_event_time(time, window, ctx)
        return _purging(require_trigger_result(result, self.nested_trigger, "on_event_time"))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        return _purging(require_trigger_result(result, self.nested_trigger, "on_processing_time"))

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
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
        pass

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        pass


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


# Triggers that fire at the end of a window, by the watermark or by the clock
#
# Source: pyflink.datastream.window;
# org.apache.flink.streaming.api.windowing.triggers.{EventTimeTrigger,ProcessingTimeTrigger}.


class EventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark passes the window's end, and for each late record."""

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        # other times are those of clean-up timers
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> "EventTimeTrigger[T]":
        """Make a trigger.

        Returns:
            EventTimeTrigger: The trigger.
        """
        return EventTimeTrigger()


class ProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the clock passes the window's end."""

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> "ProcessingTimeTrigger[T]":
        """Make a trigger.

        Returns:
            ProcessingTimeTrigger: The trigger.
        """
        return ProcessingTimeTrigger()


# Triggers that fire repeatedly while a window fills.
#
# Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.triggers.
# {ContinuousEventTimeTrigger,ContinuousProcessingTimeTrigger}.


class Min(ReduceFunction):
    """The smaller of two values."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return min(value1, value2)


class ContinuousEventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark passes a multiple of an interval, and at the window's end.

    A record that arrives after the window's end fires at once. A merged window waits for the earliest of the
    times that its parts waited for.

    Args:
        interval: Milliseconds, 1 or more.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", Min(), Types.LONG())
        self.fire_timestamp_state = None

    @staticmethod
    def of(interval: Time) -> "ContinuousEventTimeTrigger[T]":
        """Make a trigger.

        Args:
            interval: A Time.

        Returns:
            ContinuousEventTimeTrigger: The trigger.
        """
        return ContinuousEventTimeTrigger(interval.to_milliseconds())

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        fire_timestamp = ctx.get_partitioned_state(self.state_desc).get()
        if fire_timestamp is not None:
            ctx.register_event_time_timer(fire_timestamp)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self.state_desc)
        fire_timestamp = state.get()
        if fire_timestamp is not None:
            ctx.delete_event_time_timer(fire_timestamp)
            state.clear()

    def can_merge(self) -> bool:
        return True

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Register the window's next timer of the watermark.

        Args:
            time: Milliseconds; the timer is one interval later, but not after the window's end.
            window: The TimeWindow.
            ctx: Registers the timer.
            fire_timestamp_state: State of the window that holds the timer's time; it keeps the earliest.
        """
        fire_timestamp = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(fire_timestamp)
        ctx.register_event_time_timer(fire_timestamp)


class ContinuousProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the clock passes a multiple of an interval, and at the window's end.

    A merged window waits for the earliest of the times that its parts waited for.

    Args:
        interval: Milliseconds, 1 or more.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.state_desc = ReducingStateDescriptor("fire-time", Min(), Types.LONG())
        self.fire_timestamp_state = None

    @staticmethod
    def of(interval: Time) -> "ContinuousProcessingTimeTrigger[T]":
        """Make a trigger.

        Args:
            interval: A Time.

        Returns:
            ContinuousProcessingTimeTrigger: The trigger.
        """
        return ContinuousProcessingTimeTrigger(interval.to_milliseconds())

    def on_element(
        self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        fire_timestamp = ctx.get_partitioned_state(self.state_desc).get()
        if fire_timestamp is not None:
            ctx.register_processing_time_timer(fire_timestamp)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        state = ctx.get_partitioned_state(self.state_desc)
        fire_timestamp = state.get()
        if fire_timestamp is not None:
            ctx.delete_processing_time_timer(fire_timestamp)
            state.clear()

    def can_merge(self) -> bool:
        return True

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Register the window's next timer of the clock.

        Args:
            time: Milliseconds; the timer is one interval later, but not after the window's end.
            window: The TimeWindow.
            ctx: Registers the timer.
            fire_timestamp_state: State of the window that holds the timer's time; it keeps the earliest.
        """
        fire_timestamp = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(fire_timestamp)
        ctx.register_processing_time_timer(fire_timestamp)
