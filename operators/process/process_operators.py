"""Process functions on streams without keys, one or two of them.

Source: org.apache.flink.streaming.api.operators.{ProcessOperator,co.CoProcessOperator}.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

from penstock.operators.chain.errors import NO_RECORD
from penstock.operators.chain.operator import (
    MIN_WATERMARK,
    UNCHANGING,
    Operator,
    Results,
    Timestamps,
    Values,
    close_iterator,
)
from penstock.operators.functions.functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    TimeDomain,
    TimerService,
)
from penstock.operators.records.key_selection import OneKeyedInput
from penstock.operators.records.map_records import FunctionOperator
from penstock.operators.state.broadcast_states import BroadcastStates
from penstock.operators.state.interfaces import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState

if TYPE_CHECKING:
    from penstock.operators.process.keyed_operator import KeyedOperator


# The contexts and timer services that process operators pass to functions
#
# One object serves all calls of a subtask. `stamp` is the timestamp of the current record or timer.
#
# Source: pyflink.fn_execution.datastream.process.{process_function,timerservice_impl}.


class KeyedTimerService(TimerService):
    """Times and timers of a keyed operator."""

    def __init__(self, operator: "KeyedOperator") -> None:
        self._operator, self._backend = operator, operator.backend
        self._event, self._processing = operator.event_timers, operator.processing_timers

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time()

    def current_watermark(self) -> int:
        """Return the current event time."""
        return self._operator.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer for the current key."""
        self._processing.add(as_long(timestamp), self._backend.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer for the current key."""
        self._event.add(as_long(timestamp), self._backend.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a timer of the current key."""
        self._processing.remove(as_long(timestamp), self._backend.key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete a timer of the current key."""
        self._event.remove(as_long(timestamp), self._backend.key)


def as_long(timestamp: Any) -> int:
    """Return a timer's timestamp as an int; floats are truncated, as in PyFlink.

    Raises TypeError for other types.
    """
    if isinstance(timestamp, (int, float)):
        return int(timestamp)
    raise TypeError(f"a timer's timestamp must be an integer, got {timestamp!r}")


class UnkeyedTimerService(TimerService):
    """Times of an operator without keys. Its timer methods raise Exception."""

    def __init__(self, operator: "KeyedOperator | UnkeyedOperator") -> None:
        self._operator = operator

    def current_processing_time(self) -> int:
        return self._operator.context.processing_time()

    def current_watermark(self) -> int:
        """Return the current event time."""
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
    """A context with a timer service and a timestamp."""

    def __init__(self, timer_service: TimerService) -> None:
        self._timer_service = timer_service
        self.stamp: int | None = None

    def timer_service(self) -> TimerService:
        """Return the timer service."""
        return self._timer_service

    def timestamp(self) -> int:
        """Return the timestamp of the record or timer; the least 64-bit integer if it has none."""
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
        """Return the key of the record or timer, as the key selector returned it."""
        return self._backend.current_key()

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the firing timer."""
        assert self.domain is not None, "only on_timer has a time domain"
        return self.domain


class _BroadcastBaseContext(_StampedContext):
    """A context with times and the broadcast states."""

    def __init__(self, timer_service: TimerService, states: BroadcastStates) -> None:
        super().__init__(timer_service)
        self._states = states

    def current_processing_time(self) -> int:
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        """Return the current event time."""
        return self._timer_service.current_watermark()


class WritableBroadcastContext(
    _BroadcastBaseContext, BroadcastProcessFunction.Context, KeyedBroadcastProcessFunction.Context
):
    """The context of the broadcast side."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the state, to read and change."""
        return self._states.writable(state_descriptor)


class ReadOnlyBroadcastContext(_BroadcastBaseContext, BroadcastProcessFunction.ReadOnlyContext):
    """The context of the side that is not broadcast, without keys."""

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a view of the state."""
        return self._states.read_only(state_descriptor)


class KeyedReadOnlyBroadcastContext(_BroadcastBaseContext, KeyedBroadcastProcessFunction.OnTimerContext):
    """The context of the keyed side, for records and timers."""

    def __init__(self, operator: "KeyedOperator", states: BroadcastStates) -> None:
        super().__init__(KeyedTimerService(operator), states)
        self._backend = operator.backend
        self.domain: TimeDomain | None = None

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a view of the state."""
        return self._states.read_only(state_descriptor)

    def get_current_key(self) -> Any:
        """Return the key of the record or timer, as the key selector returned it."""
        return self._backend.current_key()

    def time_domain(self) -> TimeDomain:
        """Return the time domain of the firing timer."""
        assert self.domain is not None, "only on_timer has a time domain"
        return self.domain


# The inner loop of process operators


class ContextWithStamp(Protocol):
    """A context whose `stamp` is set to the timestamp of the current record."""

    stamp: int | None


class KeyHolder(Protocol):
    """A state backend, or its replacement, whose `key` is set to the key of the current record."""

    key: Any


class NoKey:
    """Replaces the state backend of operators without one."""

    key: Any = None


def call_function(
    function: Callable[[Any, Any], Iterable[Any] | None],
    values: Values,
    timestamps: Timestamps,
    keys: Iterable[Any],
    *,
    context: ContextWithStamp,
    backend: KeyHolder,
    results: Results,
    operator: Operator,
) -> None:
    """Call `function(value, context)` for each value, with `context.stamp` and `backend.key` set before.

    Adds its results to `results`. Raises UserFunctionError with the failing record.
    """
    append, append_stamp, add_other = results.values.append, results.stamps.append, results.add_other
    room = results.room()
    unchanging, only_unchanging = UNCHANGING, UNCHANGING.issuperset
    stamps = repeat(None, len(values)) if timestamps is None else timestamps
    value: Any = NO_RECORD
    outputs: Iterable[Any] | None = None
    try:
        for value, stamp, backend.key in zip(values, stamps, keys, strict=True):
            context.stamp = stamp
            outputs = function(value, context)
            if outputs:
                # the results of most functions are handled here, to spare a call
                for result in outputs:
                    kind = type(result)
                    if kind in unchanging or (kind is tuple and only_unchanging(map(type, result))):
                        append(result)
                        append_stamp(stamp)
                    else:
                        add_other(result, stamp)
                    room -= 1
                    if not room:
                        results.relieve()
                        append, append_stamp = results.values.append, results.stamps.append
                        room = results.room()
    except BaseException as error:
        close_iterator(outputs)
        raise operator.failed(error, value) from error


# The common base of process operators without keys
#
# Source: org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator.


_NO_KEY = NoKey()


class UnkeyedOperator(FunctionOperator):
    """An operator around a process function; it tracks the watermark, and emits through Results."""

    def open(self) -> None:
        self.results = Results(self.output)
        self.watermark = MIN_WATERMARK
        super().open()

    def process_watermark(self, watermark: int) -> None:
        """Store the watermark and pass it on."""
        self.watermark = watermark
        self.output.watermark(watermark)

    def handle_with(
        self,
        function: Callable[[Any, Any], Iterable[Any] | None],
        context: Any,
        values: Values,
        timestamps: Timestamps,
    ) -> None:
        """Call `function` with each value and `context`, whose `stamp` is set before; emit the results."""
        call_function(
            function,
            values,
            timestamps,
            repeat(None, len(values)),
            context=context,
            backend=_NO_KEY,
            results=self.results,
            operator=self,
        )
        self.results.flush()


class ProcessOperator(UnkeyedOperator):
    """Runs a ProcessFunction."""

    def open(self) -> None:
        """Create the context; open the function."""
        super().open()
        self._context = UnkeyedContext(UnkeyedTimerService(self))

    def process(self, values: Values, timestamps: Timestamps) -> None:
        self.handle_with(self.function.process_element, self._context, values, timestamps)


class CoProcessOperator(UnkeyedOperator, OneKeyedInput):
    """Runs a CoProcessFunction."""

    def open(self) -> None:
        """Create the context; open the function."""
        super().open()
        self._context = UnkeyedContext(UnkeyedTimerService(self))

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the first stream."""
        self.handle_with(self.function.process_element1, self._context, self.records(1, values), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second stream."""
        self.handle_with(self.function.process_element2, self._context, self.records(2, values), timestamps)
