"""Windows over keyed records: assign, keep, ask the trigger, run the window function, clean up.

Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.
"""

from collections.abc import Callable, Iterable
from typing import Any

from operators.chain.operator import MAX_WATERMARK, Timestamps, Values
from operators.common.output_tag import OutputTag
from operators.functions.runtime_context import RuntimeContext
from operators.process.keyed_operator import KeyedOperator
from operators.windows.assigner import MergingWindowAssigner, WindowAssigner
from operators.windows.pane_output import make_panes
from operators.windows.sessions import make_sessions
from operators.windows.trigger import Trigger
from operators.windows.triggered_windows import TriggeredWindows
from operators.windows.window_contexts import WindowContext
from operators.windows.window_keeper import WindowKeeper
from operators.windows.windowed_function import WindowedFunction

#: Counts the records that were too late for all their windows and for which there is no side output.
LATE_RECORDS_DROPPED = "numLateRecordsDropped"


class WindowOperator(KeyedOperator):
    """Windows by `assigner`, fired by `trigger`, worked out by `function`.

    Results have the last timestamp of their window; those of windows without an end (count and global
    windows) that of the record or event-time timer that fired them, as PyFlink has it. Late records go to the
    side output with the id `late_tag`. With `by_trigger` windows that have a faster way go the general one.
    Raises ValueError: the allowed lateness is negative.
    """

    timers_have_namespaces = True

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector: Callable[[Any], Any],
        function: WindowedFunction,
        allowed_lateness_milliseconds: int = 0,
        late_tag: str | None = None,
        *,
        by_trigger: bool = False,
    ) -> None:
        if allowed_lateness_milliseconds < 0:
            raise ValueError(f"the allowed lateness is negative: {allowed_lateness_milliseconds} ms")
        super().__init__(key_selector)
        self.assigner = assigner
        self.trigger = trigger
        self.function = function
        self.allowed_lateness = allowed_lateness_milliseconds
        self.late_tag = late_tag
        self.by_trigger = by_trigger

    def open(self) -> None:
        """Make what keeps the windows, and open the window function."""
        super().open()
        runtime_context = RuntimeContext(self.context, self.backend)
        self._window_function = self.function.window_function
        merging = isinstance(self.assigner, MergingWindowAssigner)
        self._window_context = WindowContext(self, runtime_context, merging)
        self._late_tag = None if self.late_tag is None else OutputTag(self.late_tag)
        self._late_records = runtime_context.get_metrics_group().counter(LATE_RECORDS_DROPPED)
        quick: WindowKeeper | None = None if self.by_trigger else make_panes(self) or make_sessions(self)
        self._windows = quick or TriggeredWindows(self, runtime_context)
        self._window_function.open(runtime_context)

    def close(self) -> None:
        """Close the window function and let go of everything."""
        try:
            self.function.window_function.close()
        finally:
            if hasattr(self, "_windows"):
                self._windows.close()
            super().close()

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records into their windows."""
        self._windows.handle(values, timestamps, keys)

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """An event-time timer of the current key and window fires."""
        self._windows.on_event_time(timestamp, namespace)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """A processing-time timer of the current key and window fires."""
        self._windows.on_processing_time(timestamp, namespace)

    def process_watermark(self, watermark: int) -> None:
        """Fire the windows that are due by `watermark` (milliseconds), then pass it on."""
        if not self.context.batch:
            self.watermark = watermark
            self._windows.advance(watermark)
        super().process_watermark(watermark)

    def on_end_of_key(self) -> None:
        """BATCH mode: fire what has no timers."""
        self._windows.end_key()

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
