"""The part of a window operator that keeps windows: the general way and the faster ones."""

from collections.abc import Iterable
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.windows.window_function_operator import WindowFunctionOperator


class WindowKeeper:
    """Keeps the open windows of `operator`, and has it run its window function on them."""

    def __init__(self, operator: WindowFunctionOperator) -> None:
        self.operator = operator

    def handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records into their windows. Raises UserFunctionError."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """An event-time timer of the backend's key fires."""

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """A processing-time timer of the backend's key fires."""

    def advance(self, watermark: int) -> None:
        """Fire what is complete by `watermark` (milliseconds) and has no timer."""

    def end_key(self) -> None:
        """BATCH mode: fire all windows of the only key that have no timer, and forget it."""

    def close(self) -> None:
        """Let go of memory and disk other than the backend's."""
