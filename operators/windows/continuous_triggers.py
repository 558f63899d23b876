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

    Args:
        interval: Milliseconds.
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
        """Fire if the window is complete, else wait for the next multiple of the interval."""
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
        """Fire at the window's end and at the time waited for, then wait for the next."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the earliest of the times that the merged windows waited for."""
        ctx.merge_partitioned_state(self.state_desc)
        fire_timestamp = ctx.get_partitioned_state(self.state_desc).get()
        if fire_timestamp is not None:
            ctx.register_event_time_timer(fire_timestamp)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Forget the time waited for and its timer."""
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
        """Wait for `time` + interval, at most for the window's end.

        Args:
            time: Milliseconds since the epoch.
            window: The window.
            ctx: Registers the timer.
            fire_timestamp_state: Holds the time for which it waits.
        """
        fire_timestamp = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(fire_timestamp)
        ctx.register_event_time_timer(fire_timestamp)


class ContinuousProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the clock passes a multiple of an interval, and at the window's end.

    Args:
        interval: Milliseconds.
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
        """Wait for the next multiple of the interval, if nothing is waited for.

        Args:
            element: The record.
            timestamp: The record's timestamp, milliseconds since the epoch.
            window: The window to which it was added.
            ctx: Registers timers, and gives the window's state.

        Returns:
            TriggerResult: The window's reaction.
        """
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, state)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fire at the time waited for, then wait for the next.

        Args:
            time: The timer's time, milliseconds since the epoch.
            window: The timer's window.
            ctx: Registers timers, and gives the window's state.

        Returns:
            TriggerResult: The window's reaction.
        """
        state = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Wait for the earliest of the times that the merged windows waited for.

        Args:
            window: The merged window.
            ctx: Registers timers, and merges state.
        """
        ctx.merge_partitioned_state(self.state_desc)
        fire_timestamp = ctx.get_partitioned_state(self.state_desc).get()
        if fire_timestamp is not None:
            ctx.register_processing_time_timer(fire_timestamp)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Forget the time waited for and its timer.

        Args:
            window: The window that ends.
            ctx: Deletes timers, and gives the window's state.
        """
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
        """Wait for `time` + interval, at most for the window's end.

        Args:
            time: Milliseconds since the epoch.
            window: The window.
            ctx: Registers the timer.
            fire_timestamp_state: Holds the time for which it waits.
        """
        fire_timestamp = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(fire_timestamp)
        ctx.register_processing_time_timer(fire_timestamp)
