"""Triggers, which decide when a window fires, and the services of their operator.

Source: pyflink.datastream.window.{TriggerResult,Trigger};
org.apache.flink.streaming.api.windowing.triggers.{Trigger,TriggerResult}.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.operators.common.basic_types import TypeSerializer
from penstock.operators.functions.runtime_context import MetricGroup, RuntimeContext
from penstock.operators.state.interfaces import StateDescriptor

T = TypeVar("T")
W = TypeVar("W")


class TriggerResult(Enum):
    """The effect on a window.

    Its function runs (fire), its contents are dropped (purge), both, or neither. Firing an empty window runs
    nothing.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Tell whether the window's function runs."""
        fires: bool = self.value[0]
        return fires

    def is_purge(self) -> bool:
        """Tell whether the window's contents are dropped."""
        purges: bool = self.value[1]
        return purges


def require_trigger_result(result: object, trigger: object, method: str) -> TriggerResult:
    """Return the result of a trigger's method. Raises TypeError unless it is a TriggerResult.

    The usual cause is a forgotten return.
    """
    if isinstance(result, TriggerResult):
        return result
    raise TypeError(
        f"{type(trigger).__name__}.{method} must return one of "
        f"{', '.join(f'TriggerResult.{member.name}' for member in TriggerResult)}, got {result!r}"
    )


class Trigger(ABC, Generic[T, W]):
    """Decides when the window function runs.

    One trigger serves all keys and windows of a subtask: it remembers things in the state of its context
    only. With windows that merge, `on_merge` must work.
    """

    class TriggerContext(ABC):
        """Timers, times and state of the key and window that the trigger is called for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the clock in milliseconds since the epoch."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the operator's metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the watermark in milliseconds; the least 64-bit integer before the first one."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Register a timer of the clock for this key and window.

            Args:
                time: Milliseconds since the epoch; `on_processing_time` is called when the clock passes it.
            """

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Register a timer of the watermark for this key and window.

            Args:
                time: Milliseconds since the epoch; `on_event_time` is called when the watermark passes it.
            """

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete a timer of the clock of this key and window, if there is one.

            Args:
                time: The time it was registered for, in milliseconds since the epoch.
            """

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete a timer of the watermark of this key and window, if there is one.

            Args:
                time: The time it was registered for, in milliseconds since the epoch.
            """

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """Return the trigger's state for this key and window.

            Args:
                state_descriptor: Name, kind and type of the state.

            Returns:
                The state of the descriptor's kind, such as a ReducingState.
            """

    class OnMergeContext(TriggerContext):
        """The context of `on_merge`: can also merge the state of the windows that become one."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the trigger's state of the merged windows into the state of the new window.

            Args:
                state_descriptor: Describes reducing, aggregating or list state.

            Raises:
                Exception: The descriptor describes value or map state, which cannot be merged.
            """

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: "Trigger.TriggerContext"
    ) -> TriggerResult:
        """Handle a record that was put into a window.

        Args:
            element: The record.
            timestamp: Milliseconds.
            window: The Window.
            ctx: Has timers and state.

        Returns:
            TriggerResult: The effect on the window.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Handle a timer of the clock.

        Args:
            time: Milliseconds.
            window: The Window.
            ctx: Has timers and state.

        Returns:
            TriggerResult: The effect on the window.
        """

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """Handle a timer of the watermark.

        Args:
            time: Milliseconds.
            window: The Window.
            ctx: Has timers and state.

        Returns:
            TriggerResult: The effect on the window.
        """

    def can_merge(self) -> bool:
        """Tell whether the trigger's state can be merged; no by default."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: "Trigger.OnMergeContext") -> None:
        """Merge the trigger's state of several windows.

        Args:
            window: The merged Window.
            ctx: Has timers and state.
        """

    @abstractmethod
    def clear(self, window: W, ctx: "Trigger.TriggerContext") -> None:
        """Clear timers and state of a window that is over.

        Args:
            window: The Window.
            ctx: Has timers and state.
        """


# Assigners, which put each record into windows, and the common base of the bundled ones
#
# Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
# {WindowAssigner,MergingWindowAssigner,SessionWindowTimeGapExtractor}.


W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Puts each record into zero or more windows."""

    class WindowAssignerContext(ABC):
        """The services of its operator that an assigner may use."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the clock in milliseconds since the epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the operator's runtime context, with the state of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: "WindowAssigner.WindowAssignerContext"
    ) -> Collection[W]:
        """Return the windows of a record.

        Args:
            element: The record.
            timestamp: Milliseconds; the least 64-bit integer without one.
            context: Has `get_current_processing_time()` and state.

        Returns:
            Windows, in any iterable.
        """

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Return the trigger of streams that set none.

        Args:
            env: The StreamExecutionEnvironment.

        Returns:
            Trigger: A new one.
        """

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return the serializer of the windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Tell whether windows end by the watermark instead of the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the merges that `merge_windows` finds."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Replace windows by one that covers them.

            Args:
                to_be_merged: The windows to replace, at least two.
                merge_result: The window that replaces them.
            """

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: "MergingWindowAssigner.MergeCallback[W]") -> None:
        """Merge windows.

        Args:
            windows: The windows of a key.
            callback: Call its `merge(windows, result)` for each group that merges.
        """


class SessionWindowTimeGapExtractor(ABC):
    """The time after a record for which its session stays open."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap.

        Args:
            element: The record.

        Returns:
            int: Milliseconds, above 0.
        """


def no_timestamp() -> Exception:
    """Return the error for a record that lacks the timestamp it needs."""
    return Exception(
        "A record without a timestamp (Long.MIN_VALUE) has reached event-time windows. "
        "Call 'data_stream.assign_timestamps_and_watermarks(...)' before them, or use processing time."
    )
