"""Assign keyed records to windows, store them, call triggers and window functions, and clean up.

Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.
"""

from collections.abc import Callable, Iterable
from itertools import islice, repeat
from typing import Any

from penstock.operators.chain.errors import DescribedError, describe_record
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, Timestamps, Values, copies
from penstock.operators.common.serialized_keys import original_key
from penstock.operators.functions.functions import ProcessAllWindowFunction, ProcessWindowFunction
from penstock.operators.state.interfaces import ListStateDescriptor
from penstock.operators.windows.assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
)
from penstock.operators.windows.panes import Panes, fold_of
from penstock.operators.windows.trigger import Trigger, WindowAssigner, no_timestamp
from penstock.operators.windows.triggered_windows import (
    TriggeredWindows,
    WindowFunctionOperator,
    WindowProcessor,
    regular_windows,
)
from penstock.operators.windows.triggers import EventTimeTrigger
from penstock.operators.windows.window import TimeWindow, in_set_order
from penstock.operators.windows.window_functions import WindowedFunction

# Event-time sessions with the default trigger, without trigger calls
#
# Records need neither a window object nor a timer each. A key's sessions are a list. A session has one timer,
# set when it opens; if the session has grown by the time it fires, the timer is postponed to the new end.
# The general window operator gives the same results.
#
# Source: org.apache.flink.streaming.runtime.operators.windowing.{WindowOperator,MergingWindowSet} with
# EventTimeTrigger, for the behaviour; this form of sessions is Penstock's addition.


#: The parts of a session, which is a list of plain data, as it may go to disk.
_START, _END, _CONTENTS, _NUMBER, _TIMER, _FIRED = range(6)
_Session = list[Any]


class Sessions(WindowProcessor):
    """The open sessions of an operator; `gap_of` gives milliseconds for a record."""

    def __init__(self, operator: WindowFunctionOperator, gap_of: Callable[[Any], int] | int) -> None:
        super().__init__(operator)
        descriptor = operator.function.state_descriptor
        self._fold = fold_of(descriptor)
        # a list that stays after it has fired must not be changed by the window function
        self._copies = isinstance(descriptor, ListStateDescriptor) and operator.allowed_lateness > 0
        self._gap_of = gap_of
        self._table = operator.backend.table("open-sessions")
        self._numbers = 0  #: the number of sessions opened so far, which identifies a key's sessions

    def handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records into their sessions. Raises UserFunctionError."""
        step, gap_of = self._fold.step, self._gap_of
        gap = gap_of if isinstance(gap_of, int) else 0
        entries = self._table.entries
        stamps: Iterable[int | None] = repeat(None) if timestamps is None else timestamps
        value = None
        try:
            for value, stamp, key in zip(values, stamps, keys, strict=False):
                start = MIN_WATERMARK if stamp is None else stamp
                end = start + (gap or gap_of(value))  # type: ignore[operator] # 0 if gap_of is callable
                sessions = entries.get(key)
                if sessions is not None and len(sessions) == 1:
                    session = sessions[0]
                    if not session[_FIRED] and session[_START] <= end and start <= session[_END]:
                        session[_START] = min(session[_START], start)
                        session[_END] = max(session[_END], end)
                        before = session[_CONTENTS]
                        session[_CONTENTS] = (
                            self._fold.first(value) if before is None else step(before, value)
                        )
                        continue
                self.operator.backend.key = key
                self._add(sessions or [], start, end, value, stamp)
        except BaseException as error:
            raise self.operator.failed(error, value) from error

    def _add(self, sessions: list[_Session], start: int, end: int, value: Any, stamp: int | None) -> None:
        operator, fold = self.operator, self._fold
        lateness, watermark = operator.allowed_lateness, operator.watermark
        touched = [session for session in sessions if session[_START] <= end and start <= session[_END]]
        if touched:
            session = self._merged(sessions, touched, start, end)
        elif min(end - 1 + lateness, MAX_WATERMARK) <= watermark:
            if start + lateness <= watermark:
                operator.late(value, stamp)
            return
        else:
            self._numbers += 1
            session = [start, end, None, self._numbers, MAX_WATERMARK, False]
            sessions.append(session)
            self._table.entries[operator.backend.key] = sessions
        before = session[_CONTENTS]
        session[_CONTENTS] = fold.first(value) if before is None else fold.step(before, value)
        session[_FIRED] = session[_END] - 1 <= watermark
        self._set_timer(session)
        if session[_FIRED]:
            self._emit(session)

    def _merged(self, sessions: list[_Session], touched: list[_Session], start: int, end: int) -> _Session:
        """Merge all of `touched` and the span from `start` to `end` into one session."""
        into = touched[0]
        if len(touched) > 1:
            by_window = {TimeWindow(session[_START], session[_END]): session for session in touched}
            new = TimeWindow(start, end)
            windows = sorted({*by_window, new}, key=lambda window: (window.start, window.end))
            into, *rest = (by_window[window] for window in in_set_order(windows) if window in by_window)
            self._merge_contents(into, rest)
            for session in rest:
                sessions.remove(session)
                into[_START] = min(into[_START], session[_START])
                into[_END] = max(into[_END], session[_END])
        into[_START] = min(into[_START], start)
        into[_END] = max(into[_END], end)
        return into

    def _merge_contents(self, into: _Session, rest: list[_Session]) -> None:
        merge = self._fold.merge
        moved = None
        for session in rest:
            contents = session[_CONTENTS]
            if contents is not None:
                moved = contents if moved is None else merge(moved, contents)
        if moved is not None:
            before = into[_CONTENTS]
            into[_CONTENTS] = moved if before is None else merge(before, moved)

    def _set_timer(self, session: _Session) -> None:
        """Schedule the next check of a session, at the latest for when it fires or, after that, ends."""
        if self.operator.context.batch:
            # at the end of a key no timer can be set again
            return
        due = self._due(session)
        if due < session[_TIMER]:
            session[_TIMER] = due
            self.operator.register_event_time_timer(due, session[_NUMBER])

    def _due(self, session: _Session) -> int:
        end: int = session[_END] - 1
        return min(end + self.operator.allowed_lateness, MAX_WATERMARK) if session[_FIRED] else end

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Handle the timer of the current key's session with the number `namespace`."""
        operator = self.operator
        sessions = self._table.entries.get(operator.backend.key, ())
        session = next((each for each in sessions if each[_NUMBER] == namespace), None)
        if session is None or session[_TIMER] != timestamp:
            return
        session[_TIMER] = MAX_WATERMARK
        lateness, end = operator.allowed_lateness, session[_END] - 1
        if not session[_FIRED] and end <= timestamp:
            session[_FIRED] = True
            self._emit(session)
        if session[_FIRED] and end + lateness <= timestamp:
            operator.clear_function(TimeWindow(session[_START], session[_END]))
            if len(sessions) > 1:
                sessions.remove(session)
            else:
                del self._table.entries[operator.backend.key]
        else:
            # in the order of all sessions' ends, as if the timer had always been set for this one
            session[_TIMER] = self._due(session)
            operator.postpone_event_time_timer(session[_TIMER], session[_NUMBER])

    def end_key(self) -> None:
        """Fire all sessions of the only key in the order of their ends, and forget the key. BATCH mode."""
        lateness = self.operator.allowed_lateness
        due: list[tuple[int, bool, int, _Session]] = []
        for session in self._table.entries.get(self.operator.backend.key, ()):
            end = session[_END] - 1
            due.append((end, False, session[_NUMBER], session))
            if end + lateness < MAX_WATERMARK:
                due.append((end + lateness, True, session[_NUMBER], session))
        for _, is_over, _, session in sorted(due):
            if is_over:
                self.operator.clear_function(TimeWindow(session[_START], session[_END]))
            else:
                self._emit(session)

    def _emit(self, session: _Session) -> None:
        contents = session[_CONTENTS]
        result = None if contents is None else self._fold.result(contents)
        if result is not None:
            window = TimeWindow(session[_START], session[_END])
            self.operator.emit(window, copies(result) if self._copies else result)


def _make_sessions(operator: WindowFunctionOperator) -> Sessions | None:
    """Return Sessions if the windows are event-time sessions with their default trigger, else None.

    Returns None for subclasses of assigners and triggers, which may behave differently.
    """
    assigner = operator.assigner
    if type(operator.trigger) is not EventTimeTrigger:
        return None
    if type(assigner) is EventTimeSessionWindows:
        return Sessions(operator, assigner._session_gap)
    if type(assigner) is DynamicEventTimeSessionWindows:
        return Sessions(operator, assigner.gap_of)
    return None


class WindowOperator(WindowFunctionOperator):
    """Windows by `assigner`, fired by `trigger`, with results by `function`.

    Results have the last timestamp of their window; results of windows without an end (count and global
    windows) have the timestamp of the record or event-time timer that fired them, as in PyFlink. Late records
    go to the side output with the id `late_tag`. `by_trigger` turns the faster special cases off.

    Raises ValueError if the allowed lateness is negative.
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
        """Open the window function, and create the processor of its windows."""
        super().open()
        # panes and sessions have state of their own, which does not last from batch to batch
        general = self.by_trigger or self.context.stored_state is not None
        quick: WindowProcessor | None = None if general else make_panes(self) or _make_sessions(self)
        self._windows = quick or TriggeredWindows(self, by_trigger=self.by_trigger)

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
        """Handle a due event-time timer of the current key and window."""
        self._windows.on_event_time(timestamp, namespace)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a due processing-time timer of the current key and window."""
        self._windows.on_processing_time(timestamp, namespace)

    def process_watermark(self, watermark: int) -> None:
        """Fire the windows that are due by `watermark` (milliseconds), then pass it on."""
        if not self.context.batch:
            self.watermark = watermark
            self._windows.advance(watermark)
        super().process_watermark(watermark)

    def on_end_of_key(self) -> None:
        """Fire the windows without timers. BATCH mode."""
        self._windows.end_key()


# Panes in a window operator: the windows that use them, and the handling of their contents


_KEYS_AT_ONCE = 1024


class OperatorPanes(WindowProcessor):
    """The panes of an operator, with its window function."""

    def __init__(self, operator: WindowFunctionOperator, size: int, slide: int, offset: int) -> None:
        super().__init__(operator)
        descriptor = operator.function.state_descriptor
        self._passes_through = operator.function.passes_value_through
        self._fold = fold_of(descriptor)
        # changes by a window function must not show in other windows, nor in this one if it fires again
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
        """Put records into their windows.

        Raises UserFunctionError, also for a record without a timestamp.
        """
        if timestamps is None or None in timestamps:
            without = 0 if timestamps is None else timestamps.index(None)
            raise self.operator.failed(no_timestamp(), values[without])
        try:
            self._panes.add(values, timestamps, keys)  # type: ignore[arg-type] # None is excluded above
        except BaseException as error:
            raise self.operator.failed(error, self._panes.current) from error

    def advance(self, watermark: int) -> None:
        """Fire windows that are complete by `watermark` (milliseconds)."""
        self._panes.advance(watermark)

    def end_key(self) -> None:
        """Fire all windows of the only key, and forget the key."""
        self._panes.advance(MAX_WATERMARK)
        self._panes.reset()

    def close(self) -> None:
        """Release memory and disk."""
        self._panes.close()

    def emit(self, key: Any, window: TimeWindow, contents: Any) -> None:
        """Run the window function for one key."""
        operator = self.operator
        result = self._fold.result(contents)
        if result is not None:
            operator.backend.key = key
            operator.emit(window, copies(result) if self._copies else result)

    def emit_all(self, window: TimeWindow, contents: dict[Any, Any], last: bool) -> None:
        """Run the window function for many keys, and let it clear its state if the window ends."""
        operator, fold_result = self.operator, self._fold.result
        if self._passes_through:
            timestamp = window.max_timestamp()
            rest = iter(contents.items())
            while portion := list(islice(rest, _KEYS_AT_ONCE)):
                results, key = [], None
                try:
                    for key, content in portion:  # noqa: B007 named in the error
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
        """Handle a record that is too late for all of its windows."""
        self.operator.late(value, timestamp)

    def _in_portions(self, keys: Iterable[Any]) -> Iterable[list[Any]]:
        """Yield the keys in portions, with their state in memory; emit results after each portion."""
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
    """Return panes if windows tumble or slide in event time, with their default trigger, else None."""
    regular = regular_windows(operator.assigner, operator.trigger)
    return None if regular is None else OperatorPanes(operator, *regular)


def _has_clear(window_function: Any) -> bool:
    """Whether the user's function overrides `clear`."""
    clear = getattr(type(window_function._wrapped_function), "clear", None)
    return clear not in (None, ProcessWindowFunction.clear, ProcessAllWindowFunction.clear)
