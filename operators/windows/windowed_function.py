"""How the records of a window are kept, and the function that runs on them.

Source: pyflink.datastream.data_stream.{WindowedStream,AllWindowedStream}, for which functions go together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.functions.functions import AggregateFunction, ReduceFunction
from penstock.operators.functions.window_functions import (
    AllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.operators.windows.window_functions import (
    InternalIterableAllWindowFunction,
    InternalIterableProcessAllWindowFunction,
    InternalIterableProcessWindowFunction,
    InternalIterableWindowFunction,
    InternalSingleValueAllWindowFunction,
    InternalSingleValueProcessAllWindowFunction,
    InternalSingleValueProcessWindowFunction,
    InternalSingleValueWindowFunction,
    InternalWindowFunction,
)

#: The name of the state that holds a window's contents; Flink's, so that no user's state has it.
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
    """How a window's records are kept, and the function for what was kept.

    The descriptor is that of reducing, aggregating or list state.
    """

    state_descriptor: StateDescriptor
    window_function: InternalWindowFunction[Any, Any, Any, Any]

    @property
    def passes_value_through(self) -> bool:
        """Whether the result of a window is just what was kept."""
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
    """Records are reduced to one value as they come; `window_function`, if any, has a list of that value.

    It may be a WindowFunction, AllWindowFunction, ProcessWindowFunction or ProcessAllWindowFunction.
    Raises TypeError for others, and for an object that cannot reduce.
    """
    descriptor = ReducingStateDescriptor(WINDOW_STATE_NAME, reduce_function, element_type or _any_type())
    return WindowedFunction(descriptor, _wrapped(window_function, _SINGLE_VALUE))


def aggregated(
    aggregate_function: AggregateFunction,
    window_function: Any = None,
    accumulator_type: TypeInformation | None = None,
) -> WindowedFunction:
    """Records are added to an accumulator; then `window_function`, if any, has a list of its result.

    Raises TypeError as `reduced` does.
    """
    descriptor = AggregatingStateDescriptor(
        WINDOW_STATE_NAME, aggregate_function, accumulator_type or _any_type()
    )
    return WindowedFunction(descriptor, _wrapped(window_function, _SINGLE_VALUE))


def buffered(
    window_function: Any, element_type: TypeInformation | None = None, kind: type | None = None
) -> WindowedFunction:
    """All records are kept for `window_function` (of `apply` or `process`). Raises TypeError as `reduced`.

    `kind` is the class whose methods it has; None: its own.
    """
    descriptor = ListStateDescriptor(WINDOW_STATE_NAME, element_type or _any_type())
    if window_function is None:
        raise TypeError("A window function is needed")
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
        "window_function should be a WindowFunction, ProcessWindowFunction, AllWindowFunction or "
        f"ProcessAllWindowFunction, not {type(window_function).__name__}"
    )


def _any_type() -> TypeInformation:
    return Types.PICKLED_BYTE_ARRAY()
