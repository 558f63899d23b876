"""Tumbling and sliding event-time windows with the default trigger, without trigger calls and timers.

A window is one dictionary from key to contents (a pane), so that a record costs its key, a dictionary access
and the user's function. Results are those of the window operator's general way: windows fire in the order of
their ends, in the order of each key's first record within a window, once more for each record that is late
but allowed.

Source: org.apache.flink.streaming.runtime.operators.windowing.WindowOperator with EventTimeTrigger, for what
happens; the panes are our own.
"""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, Protocol

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.common.entry_size import entry_bytes
from penstock.operators.windows.fold import Fold
from penstock.operators.windows.pane_log import PARTS, PaneLog
from penstock.operators.windows.window import TimeWindow

#: Records handled between checks of memory.
_RECORDS_A_CHECK = 1 << 16
_SAMPLE = 32
#: Stands for "not just one dictionary" as the place for a record.
_SEVERAL: dict[Any, Any] = {}


class PaneListener(Protocol):
    """Told what happens to windows of keys. Keys are dictionary keys."""

    def emit(self, key: Any, window: TimeWindow, contents: Any) -> None:
        """The window of a key fires."""

    def emit_all(self, window: TimeWindow, contents: dict[Any, Any], last: bool) -> None:
        """The window of many keys fires, and if it is the `last` time, is over."""

    def over(self, window: TimeWindow, keys: Iterable[Any]) -> None:
        """The window of these keys is over, some time after it has fired."""

    def late(self, value: Any, timestamp: int) -> None:
        """A record came too late for all of its windows."""


class Pane:
    """One window of all keys."""

    __slots__ = ("contents", "fired", "log", "window")

    def __init__(self, window: TimeWindow, fired: bool) -> None:
        self.window = window
        self.fired = fired
        self.contents: dict[Any, Any] = {}
        self.log: PaneLog | None = None  #: where keys go that are not in `contents`, once memory is short

    def add(self, key: Any, value: Any, fold: Fold) -> None:
        """Add a record to what the key has in the window."""
        before = self.contents.get(key)
        if before is not None:
            self.contents[key] = fold.step(before, value)
        elif self.log is None or key in self.contents:
            self.contents[key] = fold.first(value)
        else:
            self.log.append(key, value)

    def contents_of(self, key: Any, fold: Fold) -> Any:
        """The contents of the key in the window."""
        if self.log is None or key in self.contents:
            return self.contents.get(key)
        return self.log.replay_part(hash(key) & (PARTS - 1), fold).get(key)


class Panes:
    """The open windows of one subtask: of `size`, one every `slide`, milliseconds."""

    def __init__(
        self,
        size: int,
        slide: int,
        offset: int,
        allowed_lateness: int,
        fold: Fold,
        memory_bytes: int,
        listener: PaneListener,
    ) -> None:
        self._size, self._slide, self._offset = size, slide, offset
        self._lateness = allowed_lateness
        self._fold = fold
        self._memory_bytes = memory_bytes
        self._listener = listener
        self._panes: dict[int, Pane] = {}
        self._watermark = MIN_WATERMARK
        self._logging = False  #: whether new windows keep their records on disk
        self._unchecked = 0
        self._next_due = MAX_WATERMARK  #: before this no window fires or is over
        self.current: Any = None

    def add(self, values: list[Any], timestamps: list[int], keys: Iterable[Any]) -> None:
        """Handle records, all with a timestamp. `current` is the record when the user's function fails."""
        first, step = self._fold.first, self._fold.step
        low = high = 0
        opened: list[Pane] = []
        plain: list[dict[Any, Any]] = []
        contents: dict[Any, Any] = {}
        value = None
        try:
            for value, timestamp, key in zip(values, timestamps, keys, strict=True):
                if not low <= timestamp < high:
                    low, high, opened = self._open_panes(timestamp)
                    plain = [pane.contents for pane in opened if pane.log is None and not pane.fired]
                    contents = plain[0] if len(opened) == len(plain) == 1 else _SEVERAL
                if contents is not _SEVERAL:
                    before = contents.get(key)
                    contents[key] = first(value) if before is None else step(before, value)
                elif plain and len(plain) == len(opened):
                    for each in plain:
                        before = each.get(key)
                        each[key] = first(value) if before is None else step(before, value)
                else:
                    self._add_by_pane(opened, key, value, timestamp)
        except BaseException:
            self.current = value
            raise
        self._unchecked += len(values) * max(1, self._size // self._slide)
        if self._unchecked > _RECORDS_A_CHECK:
            self._unchecked = 0
            self._check_memory()

    def _open_panes(self, timestamp: int) -> tuple[int, int, list[Pane]]:
        """The times (from, to) that share the windows of `timestamp`, and those of them that are not over."""
        size, slide, panes = self._size, self._slide, self._panes
        # Windows start at latest, latest - slide, … and hold the timestamp until they start at `beyond`.
        latest = timestamp - (timestamp - self._offset) % slide
        beyond = latest - max(0, (latest + size - 1 - timestamp) // slide + 1) * slide
        opened = []
        for start in range(latest, beyond, -slide):
            end = start + size - 1
            if end + self._lateness <= self._watermark:
                continue
            pane = panes.get(start)
            if pane is None:
                pane = panes[start] = Pane(TimeWindow(start, start + size), fired=end <= self._watermark)
                self._next_due = min(self._next_due, end + self._lateness if pane.fired else end)
                if self._logging:
                    pane.log = PaneLog()
            opened.append(pane)
        return max(latest, beyond + size), min(latest, beyond + size) + slide, opened

    def _add_by_pane(self, panes: list[Pane], key: Any, value: Any, timestamp: int) -> None:
        fold = self._fold
        for pane in panes:
            pane.add(key, value, fold)
            if pane.fired:
                contents = pane.contents_of(key, fold)
                if contents is not None:
                    self._listener.emit(key, pane.window, contents)
        if not panes and timestamp + self._lateness <= self._watermark:
            self._listener.late(value, timestamp)

    def advance(self, watermark: int) -> None:
        """Fire what is complete by `watermark` (milliseconds), forget what is over, in the order of time."""
        self._watermark = watermark
        if watermark < self._next_due:
            return
        size, lateness = self._size, self._lateness
        due: list[tuple[int, bool, int]] = []
        for start, pane in self._panes.items():
            end = start + size - 1
            if end <= watermark and not pane.fired:
                due.append((end, False, start))
            if lateness and end + lateness <= watermark:
                due.append((end + lateness, True, start))
        for _, is_clean_up, start in sorted(due):
            if is_clean_up:
                self._finish(self._panes.pop(start))
            else:
                self._fire(start)
        ends = (start + size - 1 + (lateness if pane.fired else 0) for start, pane in self._panes.items())
        self._next_due = min(ends, default=MAX_WATERMARK)

    def _fire(self, start: int) -> None:
        pane = self._panes[start]
        pane.fired = True
        last = not self._lateness
        for contents in self._all_contents(pane):
            self._listener.emit_all(pane.window, contents, last)
        if last:
            if pane.log is not None:
                pane.log.close()
            del self._panes[start]

    def _finish(self, pane: Pane) -> None:
        for contents in self._all_contents(pane):
            self._listener.over(pane.window, contents)
        if pane.log is not None:
            pane.log.close()

    def _all_contents(self, pane: Pane) -> Iterable[dict[Any, Any]]:
        if pane.log is None:
            return (pane.contents,)
        return chain((pane.contents,), pane.log.replay(self._fold))

    def _check_memory(self) -> None:
        """Send to disk what comes for keys that are new to their window, and if need be everything."""
        panes = self._panes.values()
        used = sum(_estimated_bytes(pane.contents) for pane in panes)
        self._logging = used > self._memory_bytes
        if not self._logging:
            return
        flush = used > 2 * self._memory_bytes
        for pane in panes:
            if pane.log is None:
                pane.log = PaneLog()
            if flush:
                pane.log.spill(pane.contents)
                pane.contents = {}

    def reset(self) -> None:
        """The key is over (BATCH mode), and all its windows have fired."""
        self._watermark = MIN_WATERMARK
        self._logging = False
        self.close()

    def close(self) -> None:
        """Let go of memory and disk."""
        for pane in self._panes.values():
            if pane.log is not None:
                pane.log.close()
        self._panes.clear()
        self._next_due = MAX_WATERMARK


def _estimated_bytes(contents: dict[Any, Any]) -> int:
    """Roughly what a pane takes, judged by its first and last keys."""
    samples = [*islice(contents.items(), _SAMPLE), *islice(reversed(contents.items()), _SAMPLE)]
    return len(contents) * sum(entry_bytes(key, value) for key, value in samples) // max(1, len(samples))
