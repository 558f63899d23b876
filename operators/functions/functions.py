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
    """Refuses a function written in Java.

    Args:
        j_function: Named in the error.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, j_function: Any) -> None:
        no_java(f"{type(self).__name__}({j_function!r})")

    def get_java_function(self) -> NoReturn:
        """Raise NoJavaError: jobs of Penstock run no Java."""
        no_java("JavaFunctionWrapper.get_java_function")


class SourceFunction(JavaFunctionWrapper):
    """Refuses a source written in Java.

    Args:
        source_func: Named in the error.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, source_func: Any) -> None:
        super().__init__(source_func)


class SinkFunction(JavaFunctionWrapper):
    """Refuses a sink written in Java.

    Args:
        sink_func: Named in the error.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, sink_func: Any) -> None:
        super().__init__(sink_func)


class Function(ABC):  # noqa: B024 what functions have to do differs
    """Base of all functions of users; opened and closed in each subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 may be left out
        """Prepare for records; called before the first one.

        Args:
            runtime_context: The RuntimeContext of the subtask.
        """

    def close(self) -> None:  # noqa: B027 may be left out
        """Clean up; called after the last record, and after a failure."""


class MapFunction(Function):
    """A function with one result per record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Transform a record.

        Args:
            value: The record.

        Returns:
            The result.
        """


class CoMapFunction(Function):
    """A function with one result per record of either of two connected streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Transform a record of the first stream.

        Args:
            value: The record.

        Returns:
            The result; None is omitted.
        """

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Transform a record of the second stream.

        Args:
            value: The record.

        Returns:
            The result; None is omitted.
        """


class FlatMapFunction(Function):
    """A function with any number of results per record."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Transform a record.

        Args:
            value: The record.

        Returns:
            An iterable of results, or None.
        """


class CoFlatMapFunction(Function):
    """A function with any number of results per record of either of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Transform a record of the first stream.

        Args:
            value: The record.

        Returns:
            An iterable of results.
        """

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Transform a record of the second stream.

        Args:
            value: The record.

        Returns:
            An iterable of results.
        """


class ReduceFunction(Function, Reducer):
    """Combines two values of one type into one, until one is left."""


class AggregateFunction(Function, Aggregator):
    """Adds values to an accumulator, whose type may differ from that of values and result."""


class KeySelector(Function):
    """The key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key.

        Args:
            value: The record.

        Returns:
            The key; equal records have equal keys.
        """


class NullByteKeySelector(KeySelector):
    """The same key for all records: keyed operators then work on streams without keys."""

    def get_key(self, value: Any) -> int:
        return 0


class FilterFunction(Function):
    """A condition on records."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Decide whether a record stays.

        Args:
            value: The record, which must not be changed.

        Returns:
            bool: Whether it stays.
        """


class Partitioner(Function):
    """The subtask of a record."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Choose a subtask.

        Args:
            key: The record's key.
            num_partitions: Number of subtasks.

        Returns:
            int: From 0 to below `num_partitions`.
        """


class FunctionWrapper(Function):
    """Makes a plain function a Function.

    Args:
        func: The function.
    """

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
    """A function of all records that a key has in a window."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Transform a window.

        Args:
            key: The key.
            window: The Window.
            inputs: Its records.

        Returns:
            An iterable of results.
        """


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """A function of all records in a window of a stream without key."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Transform a window.

        Args:
            window: The Window.
            inputs: Its records.

        Returns:
            An iterable of results.
        """


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """A function of all records that a key has in a window, with times and state."""

    class Context(ABC, Generic[W2]):
        """The context of `process` and `clear`."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the clock in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in milliseconds; the least 64-bit integer before the first one."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of the key and this window, which `clear` must clear."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state of the key, which its windows share."""

    @abstractmethod
    def process(
        self, key: KEY, context: "ProcessWindowFunction.Context[W]", elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Transform a window.

        Args:
            key: The key.
            context: `window()`, times, and state of the window or of the key.
            elements: Its records.

        Returns:
            An iterable of results.
        """

    def clear(self, context: "ProcessWindowFunction.Context[W]") -> None:
        """Clear the state of a window that is over, allowed lateness included.

        Args:
            context: As for `process`.
        """


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """A function of all records in a window of a stream without key, with state."""

    class Context(ABC, Generic[W2]):
        """The context of `process` and `clear`."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this window, which `clear` must clear."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state that all windows share."""

    @abstractmethod
    def process(
        self, context: "ProcessAllWindowFunction.Context[W]", elements: Iterable[IN]
    ) -> Iterable[OUT]:
        """Transform a window.

        Args:
            context: `window()` and state.
            elements: Its records.

        Returns:
            An iterable of results.
        """

    def clear(self, context: "ProcessAllWindowFunction.Context[W]") -> None:
        """Clear the state of a window that is over, allowed lateness included.

        Args:
            context: As for `process`.
        """


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Returns the window's contents unchanged."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Returns the window's contents unchanged."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        yield from inputs


# Base classes of process functions. Source: pyflink.datastream.functions; their Java namesakes
#
# All of them emit results by returning an iterable or by yielding; a yielded pair of an OutputTag and a value
# goes to that side output.


# The service that gives process functions the time and registers their timers
#
# Source: pyflink.datastream.timerservice; org.apache.flink.streaming.api.TimerService.


class TimerService(ABC):
    """The clock, the watermark and the timers of the current key; times are milliseconds since the epoch."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the clock's time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the watermark; the least 64-bit integer before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer of the clock.

        Args:
            timestamp: Milliseconds; at most one timer per key and time.
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer of the watermark.

        Args:
            timestamp: Milliseconds; at most one timer per key and time.
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a timer of the clock, if there is one.

        Args:
            timestamp: The time it was registered for.
        """

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete a timer of the watermark, if there is one.

        Args:
            timestamp: The time it was registered for.
        """


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
            """Return the timestamp (milliseconds) of record or timer; the least 64-bit integer if none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the clock in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in milliseconds; the least 64-bit integer before the first one."""

    class Context(BaseContext):
        """The context of the broadcast side, which may change the state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return a broadcast state, to read and change.

            Args:
                state_descriptor: One of the MapStateDescriptors given to `broadcast`.

            Returns:
                BroadcastState: Every subtask must change it in the same way.
            """

    class ReadOnlyContext(BaseContext):
        """The context of the other side."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a broadcast state, to read.

            Args:
                state_descriptor: One of the MapStateDescriptors given to `broadcast`.

            Returns:
                ReadOnlyBroadcastState: The entries that the subtask has received so far.
            """


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A process function on a stream without key and a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of `process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of `process_element`."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: "BroadcastProcessFunction.ReadOnlyContext"
    ) -> Iterable[OUT] | None:
        """Process a record of the stream that is not broadcast.

        Args:
            value: The record.
            ctx: Reads broadcast state.

        Returns:
            An iterable of results.
        """

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: "BroadcastProcessFunction.Context"
    ) -> Iterable[OUT] | None:
        """Process a broadcast record.

        Each subtask must change the state in the same way.

        Args:
            value: The record.
            ctx: Reads and writes broadcast state.

        Returns:
            An iterable of results.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A process function on a keyed stream, with state and timers, and a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context of `process_broadcast_element`."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context of `process_element`."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Times, and timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """The context of `on_timer`."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the time domain of the timer."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: "KeyedBroadcastProcessFunction.ReadOnlyContext"
    ) -> Iterable[OUT] | None:
        """Process a record of the keyed stream.

        Args:
            value: The record.
            ctx: Reads broadcast state; has key and timers.

        Returns:
            An iterable of results.
        """

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: "KeyedBroadcastProcessFunction.Context"
    ) -> Iterable[OUT] | None:
        """Process a broadcast record.

        Each subtask must change the state in the same way.

        Args:
            value: The record.
            ctx: Reads and writes broadcast state.

        Returns:
            An iterable of results.
        """

    def on_timer(
        self, timestamp: int, ctx: "KeyedBroadcastProcessFunction.OnTimerContext"
    ) -> Iterable[OUT] | None:
        """Process a timer.

        Args:
            timestamp: The time it was registered for, milliseconds.
            ctx: As for `process_element`.

        Returns:
            An iterable of results.
        """


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
    """A function with any number of results per record.

    It has access to timestamp, watermark and side outputs.
    """

    class Context(_Context, ABC):
        """The context of `process_element`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "ProcessFunction.Context") -> Iterable[Any] | None:
        """Process a record.

        Args:
            value: The record.
            ctx: Its `timestamp()` and `timer_service()`.

        Returns:
            An iterable of results; (OutputTag, value) for side outputs.
        """


class KeyedProcessFunction(Function):
    """A process function on a keyed stream, with state and timers of the record's key."""

    class Context(_KeyedContext, ABC):
        """The context of `process_element`."""

    class OnTimerContext(_OnTimerContext, Context, ABC):
        """The context of `on_timer`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Iterable[Any] | None:
        """Process a record.

        Args:
            value: The record.
            ctx: Its `timestamp()`, `get_current_key()` and `timer_service()`.

        Returns:
            An iterable of results; (OutputTag, value) for side outputs.
        """

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Process a timer.

        Args:
            timestamp: The time it was registered for, milliseconds.
            ctx: As for `process_element`, and `time_domain()`.

        Returns:
            An iterable of results.
        """


class CoProcessFunction(Function):
    """A process function on two connected streams."""

    class Context(_Context, ABC):
        """The context of both methods."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: "CoProcessFunction.Context") -> Iterable[Any] | None:
        """Process a record of the first stream.

        Args:
            value: The record.
            ctx: Its `timestamp()` and `timer_service()`.

        Returns:
            An iterable of results.
        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: "CoProcessFunction.Context") -> Iterable[Any] | None:
        """Process a record of the second stream.

        Args:
            value: The record.
            ctx: Its `timestamp()` and `timer_service()`.

        Returns:
            An iterable of results.
        """


class KeyedCoProcessFunction(Function):
    """A process function on two connected keyed streams, which share state and timers of a key."""

    class Context(_KeyedContext, ABC):
        """The context of both methods."""

    class OnTimerContext(_OnTimerContext, Context, ABC):
        """The context of `on_timer`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Iterable[Any] | None:
        """Process a record of the first stream.

        Args:
            value: The record.
            ctx: Its `timestamp()`, `get_current_key()` and `timer_service()`.

        Returns:
            An iterable of results.
        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: "KeyedCoProcessFunction.Context") -> Iterable[Any] | None:
        """Process a record of the second stream.

        Args:
            value: The record.
            ctx: Its `timestamp()`, `get_current_key()` and `timer_service()`.

        Returns:
            An iterable of results.
        """

    def on_timer(self, timestamp: int, ctx: "KeyedCoProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Process a timer.

        Args:
            timestamp: The time it was registered for, milliseconds.
            ctx: As for `process_element1`, and `time_domain()`.

        Returns:
            An iterable of results.
        """
