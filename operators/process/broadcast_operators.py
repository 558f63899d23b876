"""Functions on a stream and a broadcast stream, without and with keys. The second input is the broadcast one.

Source: org.apache.flink.streaming.api.operators.co.{CoBroadcastWithNonKeyedOperator,
CoBroadcastWithKeyedOperator}.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.process.keyed_process_operators import TimedFunctionOperator
from penstock.operators.process.process_operators import (
    KeyedReadOnlyBroadcastContext,
    ReadOnlyBroadcastContext,
    UnkeyedOperator,
    UnkeyedTimerService,
    WritableBroadcastContext,
)
from penstock.operators.state.broadcast_states import BroadcastStates
from penstock.operators.state.interfaces import MapStateDescriptor


class BroadcastProcessOperator(UnkeyedOperator):
    """A BroadcastProcessFunction."""

    def __init__(self, function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(function)
        self.descriptors = descriptors

    def open(self) -> None:
        """Make state and contexts, open the function."""
        super().open()
        states, times = BroadcastStates(), UnkeyedTimerService(self)
        self._writable = WritableBroadcastContext(times, states)
        self._read_only = ReadOnlyBroadcastContext(times, states)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records that are not broadcast."""
        self.handle_with(self.function.process_element, self._read_only, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle broadcast records."""
        self.handle_with(self.function.process_broadcast_element, self._writable, values, timestamps)


class KeyedBroadcastProcessOperator(TimedFunctionOperator):
    """A KeyedBroadcastProcessFunction."""

    def __init__(
        self,
        function: Any,
        key_selector: Callable[[Any], Any],
        descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(function, key_selector)
        self.descriptors = descriptors

    def open(self) -> None:
        """Make state and contexts, open the function."""
        super().open()
        states = BroadcastStates()
        self._writable = WritableBroadcastContext(UnkeyedTimerService(self), states)
        self._timer_context = self._read_only = KeyedReadOnlyBroadcastContext(self, states)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        self.handle_with(self.function.process_element, self._read_only, values, timestamps, keys)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle broadcast records, which have no key."""
        self.handle_with(
            self.function.process_broadcast_element, self._writable, values, timestamps, [None] * len(values)
        )
        self.results.flush()
        if not self.context.batch:
            self.fire_processing_time()
