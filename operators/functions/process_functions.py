"""Base classes of process functions. Source: pyflink.datastream.functions; their Java namesakes.

All of them put results out by returning an iterable or by yielding; a yielded pair of an OutputTag and a
value goes to that side output.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.operators.functions.functions import Function
from penstock.operators.state.interfaces import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState

# The service that tells process functions the time and registers their timers.
#
# Source: pyflink.datastream.timerservice; org.apache.flink.streaming.api.TimerService.


class TimerService(ABC):
    """Times in milliseconds; timers belong to the current key, and there is at most one per key and time."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The clock, milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time reached; the least 64-bit integer before the first watermark."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for the current key once the clock shows `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for the current key once the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget the current key's processing-time timer for `timestamp`, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget the current key's event-time timer for `timestamp`, if there is one."""


# The two times that a timer can be set by. Source: pyflink.datastream.time_domain.


class TimeDomain(Enum):
    """Whether a timer follows the watermark or the clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


# Base classes of functions on a stream and a broadcast stream, whose records end up in broadcast state.
#
# Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.co.


KEY = TypeVar("KEY")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class BaseBroadcastProcessFunction(Function):
    """The common base of functions with and without a key: their contexts."""

    class BaseContext(ABC):
        """The context of both sides."""

        @abstractmethod
        def timestamp(self) -> int:
            """The record's or timer's timestamp (milliseconds); the least 64-bit integer if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The clock, milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time reached, milliseconds."""

    class Context(BaseContext):
        """The context of the broadcast side, which may change the state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """The broadcast state of this name."""

    class ReadOnlyContext(BaseContext):
        """The context of the other side."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """A view of the broadcast state of this name."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A function on a stream without key and a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of `process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of `process_element`."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: "BroadcastProcessFunction.ReadOnlyContext"
    ) -> Iterable[OUT] | None:
        """Handle a record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: "BroadcastProcessFunction.Context"
    ) -> Iterable[OUT] | None:
        """Handle a broadcast record; every subtask has to change the state in the same way."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A function on a keyed stream and a broadcast stream: the keyed side has state and timers as well."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of `process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of `process_element`."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Times, and timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The record's key."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """The context of `on_timer`."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """The kind of the timer."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext"
    ) -> Iterable[OUT] | None:
        """Handle a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: "KeyedBroadcastProcessFunction.Context"
    ) -> Iterable[OUT] | None:
        """Handle a broadcast record; every subtask has to change the state in the same way."""

    def on_timer(
        self, timestamp: int, ctx: "KeyedBroadcastProcessFunction.OnTimerContext"
    ) -> Iterable[OUT] | None:
        """Handle a timer that was registered for `timestamp`."""


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
