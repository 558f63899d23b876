"""Triggers that fire repeatedly while a window fills.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.triggers.
{ContinuousEventTimeTrigger,ContinuousProcessingTimeTrigger}.
"""

from typing import Any

from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import ReduceFunction
from penstock.operators.state.interfaces import ReducingStateDescriptor
from penstock.operators.windows.trigger import T, Trigger, TriggerResult
from penstock.operators.windows.window import TimeWindow


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
