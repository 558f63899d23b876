"""The assigners that count: tumbling and sliding count windows; and the one that puts all into one window.

Source: pyflink.datastream.window (which counts in the key's state; the Java API has triggers and evictors for
it); org.apache.flink.streaming.api.windowing.assigners.GlobalWindows.
"""

from typing import Any, TypeVar

from penstock.operators.common.typeinfo import Types
from penstock.operators.state.descriptors import ValueStateDescriptor
from penstock.operators.windows.assigner import WindowAssigner
from penstock.operators.windows.other_triggers import CountTrigger, NeverTrigger
from penstock.operators.windows.serializers import CountWindowSerializer, GlobalWindowSerializer
from penstock.operators.windows.window import CountWindow, GlobalWindow

T = TypeVar("T")


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
