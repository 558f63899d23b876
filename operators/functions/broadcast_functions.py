"""Base classes of functions on a stream and a broadcast stream, whose records end up in broadcast state.

Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.co.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from penstock.operators.functions.functions import Function
from penstock.operators.functions.time_domain import TimeDomain
from penstock.operators.functions.timer_service import TimerService
from penstock.operators.state.descriptors import MapStateDescriptor
from penstock.operators.state.interfaces import BroadcastState, ReadOnlyBroadcastState

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
