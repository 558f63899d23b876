"""The internal functions that a window operator calls, for each kind of window function.

Contents are a single value (reduced or aggregated as records came) or all records of the window; functions
take them with or without a key, and with or without a context. PyFlink has a class for each of the eight
combinations.

Source: pyflink.datastream.functions.Internal*WindowFunction;
org.apache.flink.streaming.runtime.operators.windowing.functions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.functions.functions import (
    AggregateFunction,
    AllWindowFunction,
    Function,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.state.interfaces import (
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")

Results = Iterable[Any] | None


class InternalWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """The interface by which the window operator calls a function with a window's contents."""

    class InternalWindowContext(ABC):
        """Times and state that the operator offers for the current key and window."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the clock in milliseconds since the epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in milliseconds; the least 64-bit integer before the first one."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of the current key and window."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state of the current key over all windows."""

    @abstractmethod
    def process(self, key: KEY, window: W, context: InternalWindowContext, input_data: IN) -> Results:
        """Compute the results of a window that fires.

        Args:
            key: Key of the window's records.
            window: The Window.
            context: Times and state of the key and window.
            input_data: The window's contents: the value in its state, or an iterable of its records.

        Returns:
            An iterable of results, or None.
        """

    @abstractmethod
    def clear(self, window: W, context: InternalWindowContext) -> None:
        """Clear the function's state of a window that is over.

        Args:
            window: The Window.
            context: Times and state of the key and window.
        """


class _WrappingFunction(InternalWindowFunction[Any, Any, Any, Any]):
    """Opens and closes the user's function, which has no state to clear."""

    def __init__(self, wrapped_function: Any) -> None:
        self._wrapped_function = wrapped_function

    def open(self, runtime_context: RuntimeContext) -> None:
        if hasattr(self._wrapped_function, "open"):
            self._wrapped_function.open(runtime_context)

    def close(self) -> None:
        if hasattr(self._wrapped_function, "close"):
            self._wrapped_function.close()

    def clear(self, window: Any, context: InternalWindowFunction.InternalWindowContext) -> None:
        pass


class InternalSingleValueWindowFunction(_WrappingFunction):
    """Calls a WindowFunction with a list of the one value in state."""

    def process(
        self, key: Any, window: Any, context: InternalWindowFunction.InternalWindowContext, input_data: Any
    ) -> Results:
        results: Results = self._wrapped_function.apply(key, window, [input_data])
        return results


class InternalSingleValueAllWindowFunction(_WrappingFunction):
    """Calls an AllWindowFunction with a list of the one value in state."""

    def process(
        self, key: Any, window: Any, context: InternalWindowFunction.InternalWindowContext, input_data: Any
    ) -> Results:
        results: Results = self._wrapped_function.apply(window, [input_data])
        return results


class InternalIterableWindowFunction(_WrappingFunction):
    """Calls a WindowFunction with all records of a window."""

    def process(
        self,
        key: Any,
        window: Any,
        context: InternalWindowFunction.InternalWindowContext,
        input_data: Iterable[Any],
    ) -> Results:
        results: Results = self._wrapped_function.apply(key, window, input_data)
        return results


class InternalIterableAllWindowFunction(_WrappingFunction):
    """Calls an AllWindowFunction with all records of a window."""

    def process(
        self,
        key: Any,
        window: Any,
        context: InternalWindowFunction.InternalWindowContext,
        input_data: Iterable[Any],
    ) -> Results:
        results: Results = self._wrapped_function.apply(window, input_data)
        return results


class InternalProcessWindowContext(ProcessWindowFunction.Context[Any]):
    """The context of a ProcessWindowFunction: the operator's context with the window.

    Windows that merge have no window state: the store of `window_state()` refuses it.
    """

    def __init__(self) -> None:
        self._underlying: Any = None
        self._window: Any = None

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        now: int = self._underlying.current_processing_time()
        return now

    def current_watermark(self) -> int:
        watermark: int = self._underlying.current_watermark()
        return watermark

    def window_state(self) -> KeyedStateStore:
        store: KeyedStateStore = self._underlying.window_state()
        return store

    def global_state(self) -> KeyedStateStore:
        store: KeyedStateStore = self._underlying.global_state()
        return store


class InternalProcessAllWindowContext(ProcessAllWindowFunction.Context[Any]):
    """The context of a ProcessAllWindowFunction: the operator's context with the window.

    Windows that merge have no window state: the store of `window_state()` refuses it.
    """

    def __init__(self) -> None:
        self._underlying: Any = None
        self._window: Any = None

    def window(self) -> Any:
        return self._window

    def window_state(self) -> KeyedStateStore:
        store: KeyedStateStore = self._underlying.window_state()
        return store

    def global_state(self) -> KeyedStateStore:
        store: KeyedStateStore = self._underlying.global_state()
        return store


class _ProcessingFunction(_WrappingFunction):
    """Passes a context to the user's function, also for clearing its state of a window."""

    _internal_context: InternalProcessWindowContext | InternalProcessAllWindowContext

    def _context_of(self, window: Any, context: InternalWindowFunction.InternalWindowContext) -> Any:
        own_context = self._internal_context
        own_context._window = window
        own_context._underlying = context
        return own_context

    def clear(self, window: Any, context: InternalWindowFunction.InternalWindowContext) -> None:
        self._wrapped_function.clear(self._context_of(window, context))


class InternalSingleValueProcessWindowFunction(_ProcessingFunction):
    """Calls a ProcessWindowFunction with a list of the one value in state."""

    def __init__(self, wrapped_function: ProcessWindowFunction[Any, Any, Any, Any]) -> None:
        super().__init__(wrapped_function)
        self._internal_context = InternalProcessWindowContext()

    def process(
        self, key: Any, window: Any, context: InternalWindowFunction.InternalWindowContext, input_data: Any
    ) -> Results:
        results: Results = self._wrapped_function.process(
            key, self._context_of(window, context), [input_data]
        )
        return results


class InternalSingleValueProcessAllWindowFunction(_ProcessingFunction):
    """Calls a ProcessAllWindowFunction with a list of the one value in state."""

    def __init__(self, wrapped_function: ProcessAllWindowFunction[Any, Any, Any]) -> None:
        super().__init__(wrapped_function)
        self._internal_context = InternalProcessAllWindowContext()

    def process(
        self, key: Any, window: Any, context: InternalWindowFunction.InternalWindowContext, input_data: Any
    ) -> Results:
        results: Results = self._wrapped_function.process(self._context_of(window, context), [input_data])
        return results


class InternalIterableProcessWindowFunction(_ProcessingFunction):
    """Calls a ProcessWindowFunction with all records of a window."""

    def __init__(self, wrapped_function: ProcessWindowFunction[Any, Any, Any, Any]) -> None:
        super().__init__(wrapped_function)
        self._internal_context = InternalProcessWindowContext()

    def process(
        self,
        key: Any,
        window: Any,
        context: InternalWindowFunction.InternalWindowContext,
        input_data: Iterable[Any],
    ) -> Results:
        results: Results = self._wrapped_function.process(key, self._context_of(window, context), input_data)
        return results


class InternalIterableProcessAllWindowFunction(_ProcessingFunction):
    """Calls a ProcessAllWindowFunction with all records of a window."""

    def __init__(self, wrapped_function: ProcessAllWindowFunction[Any, Any, Any]) -> None:
        super().__init__(wrapped_function)
        self._internal_context = InternalProcessAllWindowContext()

    def process(
        self,
        key: Any,
        window: Any,
        context: InternalWindowFunction.InternalWindowContext,
        input_data: Iterable[Any],
    ) -> Results:
        results: Results = self._wrapped_function.process(self._context_of(window, context), input_data)
        return results


# The state of a window's records, and the function that runs on them
#
# Source: pyflink.datastream.data_stream.{WindowedStream,AllWindowedStream}, for the valid combinations.


#: The name of the state with a window's contents; Flink's, so that no user's state has the same name.
WINDOW_STATE_NAME = "window-contents"

_SINGLE_VALUE: dict[type, type] = {
    WindowFunction: InternalSingleValueWindowFunction,
    AllWindowFunction: InternalSingleValueAllWindowFunction,
    ProcessWindowFunction: InternalSingleValueProcessWindowFunction,
    ProcessAllWindowFunction: InternalSingleValueProcessAllWindowFunction,
}
_ITERABLE: dict[type, type] = {
    WindowFunction: InternalIterableWindowFunction,
    AllWindowFunction: InternalIterableAllWindowFunction,
    ProcessWindowFunction: InternalIterableProcessWindowFunction,
    ProcessAllWindowFunction: InternalIterableProcessAllWindowFunction,
}


@dataclass
class WindowedFunction:
    """A window's state and the function for its contents.

    The descriptor describes reducing, aggregating or list state.
    """

    state_descriptor: StateDescriptor
    window_function: InternalWindowFunction[Any, Any, Any, Any]

    @property
    def passes_value_through(self) -> bool:
        """Whether the result of a window equals the value in its state."""
        function = self.window_function
        return (
            type(function) is InternalSingleValueWindowFunction
            and type(function._wrapped_function) is PassThroughWindowFunction
        )


def reduced(
    reduce_function: ReduceFunction | Callable[[Any, Any], Any],
    window_function: Any = None,
    element_type: TypeInformation | None = None,
) -> WindowedFunction:
    """Reduce records to one value as they come; pass a list of that value to `window_function`, if any.

    The window function may be a WindowFunction, AllWindowFunction, ProcessWindowFunction or
    ProcessAllWindowFunction. Raises TypeError for others, and for an object that cannot reduce.
    """
    descriptor = ReducingStateDescriptor(WINDOW_STATE_NAME, reduce_function, element_type or _any_type())
    return WindowedFunction(descriptor, _wrapped(window_function, _SINGLE_VALUE))


def aggregated(
    aggregate_function: AggregateFunction,
    window_function: Any = None,
    accumulator_type: TypeInformation | None = None,
) -> WindowedFunction:
    """Add records to an accumulator; pass a list of its result to `window_function`, if any.

    Raises TypeError as `reduced` does.
    """
    descriptor = AggregatingStateDescriptor(
        WINDOW_STATE_NAME, aggregate_function, accumulator_type or _any_type()
    )
    return WindowedFunction(descriptor, _wrapped(window_function, _SINGLE_VALUE))


def buffered(
    window_function: Any, element_type: TypeInformation | None = None, kind: type | None = None
) -> WindowedFunction:
    """Store all records for `window_function` (of `apply` or `process`).

    `kind` is the class whose methods the function has; None: its own class. Raises TypeError as `reduced`
    does.
    """
    descriptor = ListStateDescriptor(WINDOW_STATE_NAME, element_type or _any_type())
    if window_function is None:
        raise TypeError("window_function is required")
    if kind is not None:
        return WindowedFunction(descriptor, _ITERABLE[kind](window_function))
    return WindowedFunction(descriptor, _wrapped(window_function, _ITERABLE))


def _wrapped(window_function: Any, wrappers: dict[type, type]) -> InternalWindowFunction[Any, Any, Any, Any]:
    if window_function is None:
        window_function = PassThroughWindowFunction()
    for base, wrapper in wrappers.items():
        if isinstance(window_function, base):
            internal: InternalWindowFunction[Any, Any, Any, Any] = wrapper(window_function)
            return internal
    raise TypeError(
        "window_function must be a WindowFunction, ProcessWindowFunction, AllWindowFunction or "
        f"ProcessAllWindowFunction, got {type(window_function).__name__}"
    )


def _any_type() -> TypeInformation:
    return Types.PICKLED_BYTE_ARRAY()
