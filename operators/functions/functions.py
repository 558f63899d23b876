"""Base classes of functions.

Source: pyflink.datastream.functions; org.apache.flink.api.common.functions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Generic, NoReturn, TypeVar

from penstock.operators.common.arguments import no_java
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.state.interfaces import (
    Aggregator,
    BroadcastState,
    KeyedStateStore,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    Reducer,
)

# Functions that PyFlink takes from Java. Their names exist here, but they cannot be created.
#
# Source: pyflink.datastream.functions.


class JavaFunctionWrapper:
    """A function written in Java. Raises NoJavaError when made."""

    def __init__(self, j_function: Any) -> None:
        no_java(f"{type(self).__name__}({j_function!r})")

    def get_java_function(self) -> NoReturn:
        no_java("JavaFunctionWrapper.get_java_function")


class SourceFunction(JavaFunctionWrapper):
    """A source written in Java. Raises NoJavaError when made."""

    def __init__(self, source_func: Any) -> None:
        super().__init__(source_func)


class SinkFunction(JavaFunctionWrapper):
    """A sink written in Java. Raises NoJavaError when made."""

    def __init__(self, sink_func: Any) -> None:
        super().__init__(sink_func)


class Function(ABC):  # noqa: B024 functions have no method in common
    """Anything written by a job's author that an operator runs; opened and closed in each subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 optional
        """Called before the first record."""

    def close(self) -> None:  # noqa: B027 optional
        """Called after the last record, and after a failure."""


class MapFunction(Function):
    """One result per record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The result for `value`."""


class CoMapFunction(Function):
    """One result per record of either of two connected streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The result for a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The result for a record of the second stream."""


class FlatMapFunction(Function):
    """Any number of results per record."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """The results for `value`, returned or yielded; None is no result."""


class CoFlatMapFunction(Function):
    """Any number of results per record of either of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """The results for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """The results for a record of the second stream."""


class ReduceFunction(Function, Reducer):
    """Combines two values of one type into one; called again and again until one is left."""


class AggregateFunction(Function, Aggregator):
    """Adds values to an accumulator, whose type may be another than that of values and result."""


class KeySelector(Function):
    """Gives the key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key: always the same for equal values."""


class NullByteKeySelector(KeySelector):
    """The same key for all records: keyed operators then work on streams without keys."""

    def get_key(self, value: Any) -> int:
        return 0


class FilterFunction(Function):
    """Says which records stay."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether `value` stays; it must not be changed."""


class Partitioner(Function):
    """Says which subtask a record goes to."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The subtask for `key`, from 0 to below `num_partitions`."""


class FunctionWrapper(Function):
    """A plain callable as a Function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func


# Base classes of functions over the contents of windows
#
# Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.windowing.


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


# Base classes of process functions. Source: pyflink.datastream.functions; their Java namesakes
#
# All of them emit results by returning an iterable or by yielding; a yielded pair of an OutputTag and a value
# goes to that side output.


# The service that gives process functions the time and registers their timers
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


# The two kinds of time for timers. Source: pyflink.datastream.time_domain


class TimeDomain(Enum):
    """Whether a timer follows the watermark or the clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


# Base classes of functions on a stream and a broadcast stream, whose records become broadcast state
#
# Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.co.


IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")


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
        """Return the service for times, and for timers of the current key."""

    @abstractmethod
    def timestamp(self) -> int:
        """Return the timestamp (milliseconds) of record or timer; the least 64-bit integer if it has none."""


class _KeyedContext(_Context):
    """The context on a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Return the key of the record or timer."""


class _OnTimerContext(_KeyedContext):
    """The context while a timer fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""


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
