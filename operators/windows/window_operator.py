"""Windows over keyed records: assign, keep, ask the trigger, run the window function, clean up.

Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.
"""

from collections.abc import Callable, Iterable
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.windows.assigner import WindowAssigner
from penstock.operators.windows.pane_output import make_panes
from penstock.operators.windows.sessions import make_sessions
from penstock.operators.windows.trigger import Trigger
from penstock.operators.windows.triggered_windows import TriggeredWindows
from penstock.operators.windows.window_function_operator import WindowFunctionOperator
from penstock.operators.windows.window_keeper import WindowKeeper
from penstock.operators.windows.windowed_function import WindowedFunction


class WindowOperator(WindowFunctionOperator):
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
        super().__init__(assigner, trigger, key_selector, function, allowed_lateness_milliseconds, late_tag)
        self.by_trigger = by_trigger

    def open(self) -> None:
        """Open the window function and make what keeps the windows."""
        super().open()
        quick: WindowKeeper | None = None if self.by_trigger else make_panes(self) or make_sessions(self)
        self._windows = quick or TriggeredWindows(self)

    def close(self) -> None:
        """Close the window function and let go of everything."""
        try:
            super().close()
        finally:
            if hasattr(self, "_windows"):
                self._windows.close()

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
