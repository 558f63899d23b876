"""Map, flat map and filter functions on keyed streams: rich functions there may use keyed state.

Source: pyflink.datastream.data_stream.{KeyedStream,ConnectedStreams}, which run them as process functions.
"""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.process.keyed_process_operators import KeyedFunctionOperator
from penstock.operators.records.user_function import method


class _OneInput(KeyedFunctionOperator):
    def __init__(self, function: Any, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(function, key_selector)


class _TwoInputs(KeyedFunctionOperator):
    def __init__(
        self,
        function: Any,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
    ) -> None:
        super().__init__(function, key_selector1, key_selector2)


class _NoContext:
    """A placeholder context on which `handle_with` sets a timestamp."""

    stamp: int | None = None


_NO_CONTEXT = _NoContext()


class KeyedMapOperator(_OneInput):
    """One result per record."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = method(self.function, "map")
        self.handle_with(lambda value, _: (function(value),), _NO_CONTEXT, values, timestamps, keys)


class KeyedFlatMapOperator(_OneInput):
    """Any number of results per record."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = method(self.function, "flat_map")
        self.handle_with(lambda value, _: function(value), _NO_CONTEXT, values, timestamps, keys)


class KeyedFilterOperator(_OneInput):
    """Keeps the records for which the function is true."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Keep what passes."""
        function = method(self.function, "filter")
        self.handle_with(
            lambda value, _: (value,) if function(value) else None, _NO_CONTEXT, values, timestamps, keys
        )


class KeyedCoMapOperator(_TwoInputs):
    """At most one result per record of either stream: as in PyFlink None is no result here."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = self.function.map1 if number == 1 else self.function.map2
        self.handle_with(
            lambda value, _: None if (result := function(value)) is None else (result,),
            _NO_CONTEXT,
            values,
            timestamps,
            keys,
        )


class KeyedCoFlatMapOperator(_TwoInputs):
    """Any number of results per record of either stream."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = self.function.flat_map1 if number == 1 else self.function.flat_map2
        self.handle_with(lambda value, _: function(value), _NO_CONTEXT, values, timestamps, keys)
