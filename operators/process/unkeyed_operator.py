"""The common base of process operators without keys.

Source: org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from penstock.operators.chain.operator import MIN_WATERMARK, Timestamps, Values
from penstock.operators.chain.results import Results
from penstock.operators.process.call_function import NoKey, call_function
from penstock.operators.records.user_function import FunctionOperator

_NO_KEY = NoKey()


class UnkeyedOperator(FunctionOperator):
    """An operator around a process function, which knows the watermark and puts out through Results."""

    def open(self) -> None:
        self.results = Results(self.output)
        self.watermark = MIN_WATERMARK
        super().open()

    def process_watermark(self, watermark: int) -> None:
        """Remember the watermark and pass it on."""
        self.watermark = watermark
        self.output.watermark(watermark)

    def handle_with(
        self,
        function: Callable[[Any, Any], Iterable[Any] | None],
        context: Any,
        values: Values,
        timestamps: Timestamps,
    ) -> None:
        """Call `function` with each value and `context`, whose `stamp` is set before; put the results out."""
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
