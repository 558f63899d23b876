"""The contexts and timer services that process operators hand to functions.

One object serves all calls of a subtask. `stamp` is the timestamp of the record or timer at hand.

Source: pyflink.fn_execution.datastream.process.{process_function,timerservice_impl}.
"""

from typing import TYPE_CHECKING, Any

from penstock.operators.chain.operator import MIN_WATERMARK
from penstock.operators.functions.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from penstock.operators.functions.process_functions import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.operators.functions.time_domain import TimeDomain
from penstock.operators.functions.timer_service import TimerService
from penstock.operators.state.broadcast_states import BroadcastStates
from penstock.operators.state.descriptors import MapStateDescriptor
from penstock.operators.state.interfaces import BroadcastState, ReadOnlyBroadcastState

if TYPE_CHECKING:
    from penstock.operators.process.keyed_operator import KeyedOperator
    from penstock.operators.process.unkeyed_operator import UnkeyedOperator


class KeyedTimerService(TimerService):
    """Times and timers of a keyed operator."""

    def __init__(self, operator: "KeyedOperator") -> None:
        self._operator, self._backend = operator, operator.backend
        self._event, self._processing = operator.event_timers, operator.processing_timers

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time()

    def current_watermark(self) -> int:
        """The event time reached."""
        return self._operator.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register for the current key."""
        self._processing.add(as_long(timestamp), self._backend.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register for the current key."""
        self._event.add(as_long(timestamp), self._backend.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the current key's."""
        self._processing.remove(as_long(timestamp), self._backend.key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the current key's."""
        self._event.remove(as_long(timestamp), self._backend.key)


def as_long(timestamp: Any) -> int:
    """A timer's timestamp; of floats the whole part, as in PyFlink. TypeError for other types."""
    if isinstance(timestamp, (int, float)):
        return int(timestamp)
    raise TypeError(f"timer at {timestamp!r}: an integer is required")


class UnkeyedTimerService(TimerService):
    """Times of an operator without keys. Its timers raise Exception."""

    def __init__(self, operator: "KeyedOperator | UnkeyedOperator") -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time()

    def current_watermark(self) -> int:
        """The event time reached."""
        return self._operator.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise Exception("Register timers is only supported on a keyed stream.")

    def register_event_time_timer(self, timestamp: int) -> None:
        raise Exception("Register timers is only supported on a keyed stream.")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        raise Exception("Deleting timers is only supported on a keyed streams.")

    def delete_event_time_timer(self, timestamp: int) -> None:
        raise Exception("Deleting timers is only supported on a keyed streams.")


class _StampedContext:
    """Timer service and timestamp."""

    def __init__(self, timer_service: TimerService) -> None:
        self._timer_service = timer_service
        self.stamp: int | None = None

    def timer_service(self) -> TimerService:
        """The timer service."""
        return self._timer_service

    def timestamp(self) -> int:
        """The timestamp of the record or timer; the least 64-bit integer if it has none."""
        return MIN_WATERMARK if self.stamp is None else self.stamp


class UnkeyedContext(_StampedContext, ProcessFunction.Context, CoProcessFunction.Context):
    """The context of functions without keys."""


class KeyedContext(
    _StampedContext, KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext
):
    """The context of keyed functions, for records and timers."""

    def __init__(self, operator: "KeyedOperator") -> None:
        super().__init__(KeyedTimerService(operator))
        self._backend = operator.backend
        self.domain: TimeDomain | None = None

    def get_current_key(self) -> Any:
        """The key of the record or timer, as the key selector gave it."""
        return self._backend.current_key()

    def time_domain(self) -> TimeDomain:
        """The kind of timer that fires."""
        assert self.domain is not None, "only on_timer has a time domain"
        return self.domain


class _BroadcastBaseContext(_StampedContext):
    """Times, and the broadcast states."""

    def __init__(self, timer_service: TimerService, states: BroadcastStates) -> None:
        super().__init__(timer_service)
        self._states = states

    def current_processing_time(self) -> int:
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        """The event time reached."""
        return self._timer_service.current_watermark()


class WritableBroadcastContext(
    _BroadcastBaseContext, BroadcastProcessFunction.Context, KeyedBroadcastProcessFunction.Context
):
    """The context of the broadcast side."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The state, to read and change."""
        return self._states.writable(state_descriptor)


class ReadOnlyBroadcastContext(_BroadcastBaseContext, BroadcastProcessFunction.ReadOnlyContext):
    """The context of the side that is not broadcast, without keys."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """A view of the state."""
        return self._states.read_only(state_descriptor)


class KeyedReadOnlyBroadcastContext(_BroadcastBaseContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of the keyed side, for records and timers."""

    def __init__(self, operator: "KeyedOperator", states: BroadcastStates) -> None:
        super().__init__(KeyedTimerService(operator), states)
        self._backend = operator.backend
        self.domain: TimeDomain | None = None

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """A view of the state."""
        return self._states.read_only(state_descriptor)

    def get_current_key(self) -> Any:
        """The key of the record or timer, as the key selector gave it."""
        return self._backend.current_key()

    def time_domain(self) -> TimeDomain:
        """The kind of timer that fires."""
        assert self.domain is not None, "only on_timer has a time domain"
        return self.domain
