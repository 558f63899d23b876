"""Assigners, which put each record into windows, and the common base of the bundled ones.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.assigners.
{WindowAssigner,MergingWindowAssigner,SessionWindowTimeGapExtractor}.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from penstock.operators.common.serializer import TypeSerializer
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.windows.trigger import Trigger

T = TypeVar("T")
W = TypeVar("W")
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
    """The error for a record that lacks the timestamp it needs."""
    return Exception(
        "A record without a timestamp (Long.MIN_VALUE) has come to event-time windows. "
        "Call 'data_stream.assign_timestamps_and_watermarks(...)' before them, or use processing time."
    )
