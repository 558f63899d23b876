"""Base classes of functions over the contents of windows.

Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.windowing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from penstock.operators.functions.functions import Function
from penstock.operators.state.interfaces import KeyedStateStore

W = TypeVar("W")
W2 = TypeVar("W2")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Any results for what a key has in a window."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The results for the window's `inputs`."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Any results for what a window of a stream without key holds."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The results for the window's `inputs`."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Any results for what a key has in a window, with access to times and state."""

    class Context(ABC, Generic[W2]):
        """The context of `process` and `clear`."""

        @abstractmethod
        def window(self) -> W2:
            """The window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock, milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time reached, milliseconds."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of the key and this window; `clear` has to clear it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of the key, shared by its windows."""

    @abstractmethod
    def process(
        self, key: KEY, context: "ProcessWindowFunction.Context[W]", elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """The results for the window's `elements`."""

    def clear(self, context: "ProcessWindowFunction.Context[W]") -> None:
        """The window is over, allowed lateness included: clear its state."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Any results for what a window of a stream without key holds, with access to state."""

    class Context(ABC, Generic[W2]):
        """The context of `process` and `clear`."""

        @abstractmethod
        def window(self) -> W2:
            """The window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of this window; `clear` has to clear it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State shared by all windows."""

    @abstractmethod
    def process(
        self, context: "ProcessAllWindowFunction.Context[W]", elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """The results for the window's `elements`."""

    def clear(self, context: "ProcessAllWindowFunction.Context[W]") -> None:
        """The window is over, allowed lateness included: clear its state."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """The window's contents as they are."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        """`inputs`, one by one."""
        yield from inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """The window's contents as they are."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        """`inputs`, one by one."""
        yield from inputs
