"""Base classes of process functions. Source: pyflink.datastream.functions; their Java namesakes.

All of them put results out by returning an iterable or by yielding; a yielded pair of an OutputTag and a
value goes to that side output.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.operators.functions.functions import Function
from penstock.operators.functions.time_domain import TimeDomain
from penstock.operators.functions.timer_service import TimerService


class _Context(ABC):
    """The context of every process function, valid only during a call."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Times, and timers of the current key."""

    @abstractmethod
    def timestamp(self) -> int:
        """The record's or the timer's timestamp (milliseconds); the least 64-bit integer if it has none."""


class _KeyedContext(_Context):
    """Further services on a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or timer."""


class _OnTimerContext(_KeyedContext):
    """Further services while a timer fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """The kind of the timer."""


class ProcessFunction(Function):
    """Any results for a record, with access to its timestamp, the watermark and side outputs."""

    class Context(_Context, ABC):
        """The context of `process_element`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "ProcessFunction.Context") -> Iterable[Any] | None:
        """Handle a record."""


class KeyedProcessFunction(Function):
    """A process function on a keyed stream: with state and timers of the record's key."""

    class Context(_KeyedContext, ABC):
        """The context of `process_element`."""

    class OnTimerContext(_OnTimerContext, Context, ABC):
        """The context of `on_timer`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Iterable[Any] | None:
        """Handle a record."""

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Handle a timer that was registered for `timestamp`."""


class CoProcessFunction(Function):
    """A process function on two connected streams."""

    class Context(_Context, ABC):
        """The context of both methods."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: "CoProcessFunction.Context") -> Iterable[Any] | None:
        """Handle a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: "CoProcessFunction.Context") -> Iterable[Any] | None:
        """Handle a record of the second stream."""


class KeyedCoProcessFunction(Function):
    """A process function on two connected keyed streams, which share state and timers of a key."""

    class Context(_KeyedContext, ABC):
        """The context of both methods."""

    class OnTimerContext(_OnTimerContext, Context, ABC):
        """The context of `on_timer`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Iterable[Any] | None:
        """Handle a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Iterable[Any] | None:
        """Handle a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: "KeyedCoProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Handle a timer that was registered for `timestamp`."""
