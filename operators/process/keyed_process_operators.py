"""Process functions on keyed streams, one or two of them.

Source: org.apache.flink.streaming.api.operators.{KeyedProcessOperator,co.KeyedCoProcessOperator}.
"""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.functions.time_domain import TimeDomain
from penstock.operators.process.call_function import call_function
from penstock.operators.process.contexts import KeyedContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.records.user_function import close_function, has_method


class KeyedFunctionOperator(KeyedOperator):
    """A keyed operator around one function."""

    def __init__(self, function: Any, *key_selectors: Callable[[Any], Any]) -> None:
        super().__init__(*key_selectors)
        self.function = function

    def open(self) -> None:
        """Make state and timers, open the function."""
        super().open()
        if has_method(self.function, "open"):
            self.function.open(RuntimeContext(self.context, self.backend))

    def close(self) -> None:
        """Close the function, release state and timers."""
        try:
            close_function(self.function)
        finally:
            super().close()

    def handle_with(
        self,
        function: Callable[[Any, Any], Iterable[Any] | None],
        context: Any,
        values: Values,
        timestamps: Timestamps,
        keys: Iterable[Any],
    ) -> None:
        """Call `function` with each value and `context`, which know its timestamp and key."""
        call_function(
            function,
            values,
            timestamps,
            keys,
            context=context,
            backend=self.backend,
            results=self.results,
            operator=self,
        )


class TimedFunctionOperator(KeyedFunctionOperator):
    """A keyed operator whose function has `on_timer`. Subclasses make `_timer_context` when opened."""

    _timer_context: Any

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Call `on_timer`; its results get the timer's timestamp."""
        context = self._timer_context
        context.stamp, context.domain = timestamp, TimeDomain.EVENT_TIME
        self.results.add(self.function.on_timer(timestamp, context), timestamp)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Call `on_timer`; its results have no timestamp."""
        context = self._timer_context
        context.stamp, context.domain = timestamp, TimeDomain.PROCESSING_TIME
        self.results.add(self.function.on_timer(timestamp, context), None)


class KeyedProcessOperator(TimedFunctionOperator):
    """A KeyedProcessFunction."""

    def __init__(self, function: Any, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(function, key_selector)

    def open(self) -> None:
        """Make the context, open the function."""
        super().open()
        self._timer_context = self._context = KeyedContext(self)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        self.handle_with(self.function.process_element, self._context, values, timestamps, keys)


class KeyedCoProcessOperator(TimedFunctionOperator):
    """A KeyedCoProcessFunction."""

    def __init__(
        self,
        function: Any,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
    ) -> None:
        super().__init__(function, key_selector1, key_selector2)

    def open(self) -> None:
        """Make the context, open the function."""
        super().open()
        self._timer_context = self._context = KeyedContext(self)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Call `process_element1` or `process_element2`."""
        function = self.function.process_element1 if number == 1 else self.function.process_element2
        self.handle_with(function, self._context, values, timestamps, keys)
