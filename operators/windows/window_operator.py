"""Windows over keyed records: assign, keep, ask the trigger, run the window function, clean up.

Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from penstock.operators.chain.copies import copies
from penstock.operators.chain.describe_error import DescribedError, describe_record
from penstock.operators.chain.operator import MAX_WATERMARK, Timestamps, Values
from penstock.operators.common.serialized_keys import original_key
from penstock.operators.functions.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from penstock.operators.state.descriptors import ListStateDescriptor
from penstock.operators.windows.assigner import WindowAssigner, no_timestamp
from penstock.operators.windows.fixed_windows import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.operators.windows.fold import fold_of
from penstock.operators.windows.panes import Panes
from penstock.operators.windows.sessions import make_sessions
from penstock.operators.windows.time_triggers import EventTimeTrigger
from penstock.operators.windows.trigger import Trigger
from penstock.operators.windows.triggered_windows import TriggeredWindows
from penstock.operators.windows.window import TimeWindow
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
        """Close the window function and release everything."""
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


# Panes in a window operator: the windows they are used for, and what happens to their contents.


_KEYS_AT_ONCE = 1024


class OperatorPanes(WindowKeeper):
    """The panes of an operator, and what its window function makes of them."""

    def __init__(self, operator: WindowFunctionOperator, size: int, slide: int, offset: int) -> None:
        super().__init__(operator)
        descriptor = operator.function.state_descriptor
        self._passes_through = operator.function.passes_value_through
        self._fold = fold_of(descriptor)
        # What a window function changes must not show in other windows, nor in this one if it fires again.
        shared = slide < size or operator.allowed_lateness > 0
        self._copies = shared and isinstance(descriptor, ListStateDescriptor)
        self._clears = _has_clear(operator.function.window_function)
        self._panes = Panes(
            size,
            slide,
            offset,
            operator.allowed_lateness,
            self._fold,
            operator.context.state_memory_bytes,
            self,
        )

    def handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records into their windows. Raises UserFunctionError, also for a record without a timestamp."""
        if timestamps is None or None in timestamps:
            without = 0 if timestamps is None else timestamps.index(None)
            raise self.operator.failed(no_timestamp(), values[without])
        try:
            self._panes.add(values, timestamps, keys)  # type: ignore[arg-type] # None is not among them
        except BaseException as error:
            raise self.operator.failed(error, self._panes.current) from error

    def advance(self, watermark: int) -> None:
        """Fire what is complete by `watermark` (milliseconds)."""
        self._panes.advance(watermark)

    def end_key(self) -> None:
        """Fire all windows of the only key, and forget it."""
        self._panes.advance(MAX_WATERMARK)
        self._panes.reset()

    def close(self) -> None:
        """Let go of memory and disk."""
        self._panes.close()

    def emit(self, key: Any, window: TimeWindow, contents: Any) -> None:
        """Run the window function for one key."""
        operator = self.operator
        result = self._fold.result(contents)
        if result is not None:
            operator.backend.key = key
            operator.emit(window, copies(result) if self._copies else result)

    def emit_all(self, window: TimeWindow, contents: dict[Any, Any], last: bool) -> None:
        """Run the window function for many keys, and let it clear its state if the window is over."""
        operator, fold_result = self.operator, self._fold.result
        if self._passes_through:
            timestamp = window.max_timestamp()
            rest = iter(contents.items())
            while portion := list(islice(rest, _KEYS_AT_ONCE)):
                results, key = [], None
                try:
                    for key, content in portion:  # noqa: B007 what raises names it
                        if content is not None:
                            results.append(fold_result(content))
                except BaseException as error:
                    raise self._failed(error, key, window) from error
                operator.results.add([result for result in results if result is not None], timestamp)
                operator.results.flush()
            return
        for keys in self._in_portions(contents):
            for key in keys:
                content = contents[key]
                try:
                    if content is not None:
                        self.emit(key, window, content)
                    if last and self._clears:
                        operator.backend.key = key
                        operator.clear_function(window)
                except BaseException as error:
                    raise self._failed(error, key, window) from error

    def over(self, window: TimeWindow, keys: Iterable[Any]) -> None:
        """Let the window function clear its state of these keys."""
        if not self._clears:
            return
        for portion in self._in_portions(keys):
            for key in portion:
                self.operator.backend.key = key
                try:
                    self.operator.clear_function(window)
                except BaseException as error:
                    raise self._failed(error, key, window) from error

    def late(self, value: Any, timestamp: int) -> None:
        """A record came too late for all of its windows."""
        self.operator.late(value, timestamp)

    def _in_portions(self, keys: Iterable[Any]) -> Iterable[list[Any]]:
        """The keys, some at a time, with their state in memory; between them results go out."""
        operator = self.operator
        rest = iter(keys)
        while portion := list(islice(rest, _KEYS_AT_ONCE)):
            if not operator.context.batch:
                operator.backend.relieve(len(portion), portion)
                if operator.backend.cold:
                    operator.backend.load(portion)
            yield portion
            operator.results.flush()

    def _failed(self, error: BaseException, key: Any, window: TimeWindow) -> Exception:
        return self.operator.failed(
            error, DescribedError(f"{window} of key {describe_record(original_key(key))}")
        )


def make_panes(operator: WindowFunctionOperator) -> OperatorPanes | None:
    """Panes if the operator's windows are tumbling or sliding in event time, with the trigger made for them.

    Subclasses, which may do anything, have none.
    """
    assigner = operator.assigner
    if type(operator.trigger) is not EventTimeTrigger:
        return None
    if type(assigner) is TumblingEventTimeWindows:
        return OperatorPanes(operator, assigner._size, assigner._size, assigner._offset)
    if type(assigner) is SlidingEventTimeWindows:
        return OperatorPanes(operator, assigner._size, assigner._slide, assigner._offset)
    return None


def _has_clear(window_function: Any) -> bool:
    """Whether the user's function has a `clear` of its own."""
    clear = getattr(type(window_function._wrapped_function), "clear", None)
    return clear not in (None, ProcessWindowFunction.clear, ProcessAllWindowFunction.clear)
