"""Two keyed streams in the same windows: coGroup, and the join built on it.

As in the Java API, records of both inputs go through one window operator, wrapped in a TaggedUnion that names
their input.

Source: org.apache.flink.streaming.api.datastream.{CoGroupedStreams,JoinedStreams}.
"""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.functions.window_functions import WindowFunction
from penstock.operators.records.user_function import has_method, method
from penstock.operators.windows.assigner import WindowAssigner
from penstock.operators.windows.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from penstock.operators.windows.trigger import Trigger
from penstock.operators.windows.window_operator import WindowOperator
from penstock.operators.windows.windowed_function import buffered


class TaggedUnion:
    """A record of the first or of the second input, as assigners and triggers of joined streams see it."""

    __slots__ = ("_is_one", "_value")

    def __init__(self, is_one: bool, value: Any) -> None:
        self._is_one, self._value = is_one, value

    def is_one(self) -> bool:
        """Whether it is a record of the first input."""
        return self._is_one

    def is_two(self) -> bool:
        """Whether it is a record of the second input."""
        return not self._is_one

    def get_one(self) -> Any:
        """The first input's record; None for one of the second."""
        return self._value if self._is_one else None

    def get_two(self) -> Any:
        """The second input's record; None for one of the first."""
        return None if self._is_one else self._value

    def __repr__(self) -> str:
        return f"{self._value!r} of input {1 if self._is_one else 2}"


class CoGroupOperator(WindowOperator):
    """Calls the function once per key and window, with the records of the first input and the second.

    `function` is a CoGroupFunction or a callable of two lists. One of the lists may be empty.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
        function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any] | None],
        allowed_lateness_milliseconds: int = 0,
    ) -> None:
        windowed = buffered(_CoGroupWindows(function))
        super().__init__(assigner, trigger, key_selector1, windowed, allowed_lateness_milliseconds)
        self.key_selectors = (key_selector1, key_selector2)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records of either input into the same windows."""
        is_one = number == 1
        super().handle(number, [TaggedUnion(is_one, value) for value in values], timestamps, keys)


class WindowJoinOperator(CoGroupOperator):
    """Calls the function for each pair of a key's records, one of each input, that share a window.

    `function` is a JoinFunction or a callable of two records (one result), or a FlatJoinFunction (any
    number). Results come in the order of the first input's records, then of the second's.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        allowed_lateness_milliseconds: int = 0,
    ) -> None:
        pairs = _JoinPairs(function)
        super().__init__(
            assigner, trigger, key_selector1, key_selector2, pairs, allowed_lateness_milliseconds
        )


class _CoGroupWindows(WindowFunction[Any, Any, Any, Any]):
    """Source: CoGroupedStreams.CoGroupWindowFunction."""

    def __init__(self, function: Any) -> None:
        self._function = function
        method(function, "co_group")

    def open(self, runtime_context: RuntimeContext) -> None:
        self._co_group = method(self._function, "co_group")
        if has_method(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        if has_method(self._function, "close"):
            self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[TaggedUnion]) -> Iterable[Any]:
        ones: list[Any] = []
        twos: list[Any] = []
        for record in inputs:
            (ones if record._is_one else twos).append(record._value)
        results: Iterable[Any] = self._co_group(ones, twos)
        return results


class _JoinPairs(CoGroupFunction):
    """Source: JoinedStreams.{JoinCoGroupFunction,FlatJoinCoGroupFunction}."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._flat = isinstance(function, FlatJoinFunction)
        method(function, "join")

    def open(self, runtime_context: RuntimeContext) -> None:
        self._join = method(self._function, "join")
        if has_method(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        if has_method(self._function, "close"):
            self._function.close()

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        join = self._join
        if not self._flat:
            for left in first:
                for right in second:
                    yield join(left, right)
            return
        for left in first:
            for right in second:
                results = join(left, right)
                if results is not None:
                    yield from results
