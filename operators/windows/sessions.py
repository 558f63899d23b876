"""Event-time sessions with the default trigger, kept without trigger calls.

Records need no window object and no timer of their own. A key's sessions are a list. A session has one timer,
set when it opens; if the session has grown when that fires, it is postponed to the new end. Results are those
of the window operator's general way.

Source: org.apache.flink.streaming.runtime.operators.windowing.{WindowOperator,MergingWindowSet} with
EventTimeTrigger, for what happens; keeping sessions like this is our own.
"""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from penstock.operators.chain.copies import copies
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, Timestamps, Values
from penstock.operators.state.descriptors import ListStateDescriptor
from penstock.operators.windows.fold import fold_of
from penstock.operators.windows.session_windows import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from penstock.operators.windows.time_triggers import EventTimeTrigger
from penstock.operators.windows.window import TimeWindow, in_set_order
from penstock.operators.windows.window_function_operator import WindowFunctionOperator
from penstock.operators.windows.window_keeper import WindowKeeper

#: A session is a list of these: plain data, as it may go to disk.
_START, _END, _CONTENTS, _NUMBER, _TIMER, _FIRED = range(6)
_Session = list[Any]


class Sessions(WindowKeeper):
    """The open sessions of an operator; `gap_of` gives milliseconds for a record."""

    def __init__(self, operator: WindowFunctionOperator, gap_of: Callable[[Any], int] | int) -> None:
        super().__init__(operator)
        descriptor = operator.function.state_descriptor
        self._fold = fold_of(descriptor)
        # What stays in a list after it has fired must not be changed by the function that is given it.
        self._copies = isinstance(descriptor, ListStateDescriptor) and operator.allowed_lateness > 0
        self._gap_of = gap_of
        self._table = operator.backend.table("open-sessions")
        self._numbers = 0  #: how many sessions were opened, to tell a key's sessions apart

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
        """Schedule the session's next check: when it fires or, once it has, when it is over; or earlier."""
        if self.operator.context.batch:
            # At the end of a key no timer can be set again.
            return
        due = self._due(session)
        if due < session[_TIMER]:
            session[_TIMER] = due
            self.operator.register_event_time_timer(due, session[_NUMBER])

    def _due(self, session: _Session) -> int:
        end: int = session[_END] - 1
        return min(end + self.operator.allowed_lateness, MAX_WATERMARK) if session[_FIRED] else end

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """The timer of the current key's session with the number `namespace`."""
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
            # in the order of all sessions' ends, as if the timer had always been there
            session[_TIMER] = self._due(session)
            operator.postpone_event_time_timer(session[_TIMER], session[_NUMBER])

    def end_key(self) -> None:
        """BATCH mode: fire all sessions of the only key in the order of their ends, and forget it."""
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


def make_sessions(operator: WindowFunctionOperator) -> Sessions | None:
    """Sessions if the operator's windows are sessions in event time, with the trigger made for them.

    Subclasses, which may do anything, have none.
    """
    assigner = operator.assigner
    if type(operator.trigger) is not EventTimeTrigger:
        return None
    if type(assigner) is EventTimeSessionWindows:
        return Sessions(operator, assigner._session_gap)
    if type(assigner) is DynamicEventTimeSessionWindows:
        return Sessions(operator, assigner.gap_of)
    return None
