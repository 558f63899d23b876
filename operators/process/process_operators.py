"""Process functions on streams without keys, one or two of them.

Source: org.apache.flink.streaming.api.operators.{ProcessOperator,co.CoProcessOperator}.
"""

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.process.contexts import UnkeyedContext, UnkeyedTimerService
from penstock.operators.process.unkeyed_operator import UnkeyedOperator
from penstock.operators.records.one_keyed_input import OneKeyedInput


class ProcessOperator(UnkeyedOperator):
    """A ProcessFunction."""

    def open(self) -> None:
        """Make the context, open the function."""
        super().open()
        self._context = UnkeyedContext(UnkeyedTimerService(self))

    def process(self, values: Values, timestamps: Timestamps) -> None:
        self.handle_with(self.function.process_element, self._context, values, timestamps)


class CoProcessOperator(UnkeyedOperator, OneKeyedInput):
    """A CoProcessFunction."""

    def open(self) -> None:
        """Make the context, open the function."""
        super().open()
        self._context = UnkeyedContext(UnkeyedTimerService(self))

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the first stream."""
        self.handle_with(self.function.process_element1, self._context, self.records(1, values), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second stream."""
        self.handle_with(self.function.process_element2, self._context, self.records(2, values), timestamps)
