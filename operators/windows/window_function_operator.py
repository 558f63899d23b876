"""Runs the window function of a windowed operation, whichever way its windows are kept.

Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.
"""

from collections.abc import Callable
from typing import Any

from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.windows.assigner import MergingWindowAssigner, WindowAssigner
from penstock.operators.windows.trigger import Trigger
from penstock.operators.windows.window_contexts import WindowContext
from penstock.operators.windows.windowed_function import WindowedFunction

#: Counts the records that were too late for all their windows and for which there is no side output.
LATE_RECORDS_DROPPED = "numLateRecordsDropped"


class WindowFunctionOperator(KeyedOperator):
    """Settings of a windowed operation, and its window function in a subtask.

    Raises ValueError: the allowed lateness is negative.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector: Callable[[Any], Any],
        function: WindowedFunction,
        allowed_lateness_milliseconds: int,
        late_tag: str | None,
    ) -> None:
        if allowed_lateness_milliseconds < 0:
            raise ValueError(f"the allowed lateness is negative: {allowed_lateness_milliseconds} ms")
        super().__init__(key_selector)
        self.assigner = assigner
        self.trigger = trigger
        self.function = function
        self.allowed_lateness = allowed_lateness_milliseconds
        self.late_tag = late_tag

    def open(self) -> None:
        """Make the contexts of the window function and open it."""
        super().open()
        self.runtime_context = RuntimeContext(self.context, self.backend)
        self._window_function = self.function.window_function
        merging = isinstance(self.assigner, MergingWindowAssigner)
        self._window_context = WindowContext(self, self.runtime_context, merging)
        self._late_tag = None if self.late_tag is None else OutputTag(self.late_tag)
        self._late_records = self.runtime_context.get_metrics_group().counter(LATE_RECORDS_DROPPED)
        self._window_function.open(self.runtime_context)

    def close(self) -> None:
        """Close the window function and release state."""
        try:
            self.function.window_function.close()
        finally:
            super().close()

    def emit(self, window: Any, contents: Any, fired_at: int | None = None) -> None:
        """Run the window function for the current key; `fired_at` stands for the end that a window lacks."""
        context = self._window_context
        context.window = window
        timestamp = window.max_timestamp()
        self.results.add(
            self._window_function.process(self.backend.current_key(), window, context, contents),
            timestamp if timestamp < MAX_WATERMARK else fired_at,
        )

    def clear_function(self, window: Any) -> None:
        """Have the window function clear its state of the current key and window."""
        self._window_context.window = window
        self._window_function.clear(window, self._window_context)

    def late(self, value: Any, timestamp: int | None) -> None:
        """A record was too late for all its windows."""
        if self._late_tag is not None:
            self.results.add([(self._late_tag, value)], timestamp)
        else:
            self._late_records.inc()
