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
    """What happens to a window: its function runs (fire), its contents are dropped (purge), both, or neither.

    Firing a window without contents runs nothing.
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window's function runs."""
        fires: bool = self.value[0]
        return fires

    def is_purge(self) -> bool:
        """Whether the window's contents are dropped."""
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
    """Decides when the window function runs on what a key has in a window.

    One trigger object serves all keys and windows of a subtask, so what it has to remember lives in the state
    that its context gives it. With an assigner that merges windows `on_merge` has to work.
    """

    class TriggerContext(ABC):
        """Timers, times and state of the key and window that the trigger is called for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Milliseconds since the epoch."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """The operator's metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Milliseconds; the least 64-bit integer before the first watermark."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have `on_processing_time` called with `time` once the clock has passed it."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have `on_event_time` called with `time` once the watermark has passed it."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Forget the processing-time timer of this window at `time`, if there is one."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Forget the event-time timer of this window at `time`, if there is one."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """The state of this description that belongs to the current key and window."""

    class OnMergeContext(TriggerContext):
        """The context of `on_merge`: can also merge the state of the windows that become one."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Bring the merged windows' state into the new window. Raises Exception: value or map state."""

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: "Trigger.TriggerContext"
    ) -> TriggerResult:
        """`element` with `timestamp` (milliseconds) has been put into `window`."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """A processing-time timer set for `time` has fired."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: "Trigger.TriggerContext") -> TriggerResult:
        """An event-time timer set for `time` has fired."""

    def can_merge(self) -> bool:
        """Whether the trigger's state can be merged; no by default."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: "Trigger.OnMergeContext") -> None:
        """Several windows have become `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: "Trigger.TriggerContext") -> None:
        """`window` is over: delete its timers and the trigger's state for it."""


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
            """Milliseconds since the epoch."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """The operator's runtime context, with the state of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: "WindowAssigner.WindowAssignerContext"
    ) -> Collection[W]:
        """The windows of `element`; `timestamp` in milliseconds, the least 64-bit integer if it has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger of streams that set none; `env` is the StreamExecutionEnvironment."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """The serializer of this assigner's windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by the watermark, and not by the clock."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the merges that `merge_windows` finds."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """The set of windows `to_be_merged` becomes the one window `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: "MergingWindowAssigner.MergeCallback[W]") -> None:
        """Call `callback` for every group among `windows` that has to merge."""


class SessionWindowTimeGapExtractor(ABC):
    """Says for each record how long after it its session stays open."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Milliseconds, more than 0."""


def no_timestamp() -> Exception:
    """Return the error for a record that lacks the timestamp it needs."""
    return Exception(
        "A record without a timestamp (Long.MIN_VALUE) has reached event-time windows. "
        "Call 'data_stream.assign_timestamps_and_watermarks(...)' before them, or use processing time."
    )
