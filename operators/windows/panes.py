"""Tumbling and sliding event-time windows with the default trigger, without trigger calls and timers.

A window is one dictionary from key to contents (a pane), so a record costs its key, a dictionary access and
the user's function. The general window operator gives the same results: windows fire in the order of their
ends, in the order of each key's first record within a window, and once more for each record that is late but
allowed.

Source: org.apache.flink.streaming.runtime.operators.windowing.WindowOperator with EventTimeTrigger, for the
behaviour; the panes are Penstock's addition.
"""

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from operator import concat
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Protocol

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, frozen
from penstock.operators.common.entry_size import entry_bytes
from penstock.operators.state.interfaces import (
    AggregatingStateDescriptor,
    ReduceFunctionWrapper,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.operators.state.state_table import dump_state, load_states
from penstock.operators.state.value_check import Check, value_check
from penstock.operators.windows.window import TimeWindow

# Functions that fold records into a window's contents, and contents into the window function's input
#
# They replace the reducing, aggregating and list state of a window: None means no contents.


class Fold(NamedTuple):
    """`first` makes contents from a record, `step` from contents and a record, `merge` from two contents.

    `result` makes the window function's input from contents.
    """

    first: Callable[[Any], Any]
    step: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]


def fold_of(descriptor: StateDescriptor) -> Fold:
    """Return the fold that replaces a window's state. The result of a list is the list itself, not a copy."""
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce_function = descriptor.get_reduce_function()
        plain = type(reduce_function) is ReduceFunctionWrapper
        reduce = reduce_function._func if plain else reduce_function.reduce
        # reducing may change the first record in place, which other windows hold as well
        check = value_check(descriptor.type_info)
        return Fold(frozen, reduce, reduce, _same if check is None else _checked(_same, check))
    if isinstance(descriptor, AggregatingStateDescriptor):
        return _aggregation(descriptor.get_agg_function(), value_check(descriptor.type_info))
    return Fold(_list_of, _appended, concat, _same)


def _aggregation(function: Any, check: Check | None) -> Fold:
    add, create = function.add, function.create_accumulator

    def first(value: Any) -> Any:
        return None if value is None else step(create(), value)

    def step(accumulator: Any, value: Any) -> Any:
        if value is None:
            return None
        after = add(value, accumulator)
        if after is None and check is not None:
            check(after)
        return after

    result = function.get_result
    return Fold(first, step, function.merge, result if check is None else _checked(result, check))


def _checked(result: Callable[[Any], Any], check: Check) -> Callable[[Any], Any]:
    # contents are checked when they are read, not record by record: a wrong value mostly stays wrong
    def checked(contents: Any) -> Any:
        check(contents)
        return result(contents)

    return checked


def _same(value: Any) -> Any:
    return value


def _list_of(value: Any) -> list[Any]:
    return [value]


def _appended(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


# The contents of a window when memory is short: records in arrival order, in a file, divided by key
#
# Contents that a key had in memory come before its records, so replaying a part gives exactly the contents
# that memory would hold. The results of a window are computed one part after the other.


#: A power of two. One part of a window must fit into memory.
_PARTS = 64
#: Entries of a part that are written together.
_ENTRIES_PER_BLOCK = 128


class PaneLog:
    """Entries of one window on disk, as (whether it is contents, key, contents or record)."""

    __slots__ = ("_blocks", "_buffers", "_file")

    def __init__(self) -> None:
        # the system deletes it when it is closed, however the process ends
        self._file = TemporaryFile(prefix="penstock-window-")  # noqa: SIM115
        self._buffers: list[list[tuple[bool, Any, Any]]] = [[] for _ in range(_PARTS)]
        self._blocks: list[list[int]] = [[] for _ in range(_PARTS)]

    def append(self, key: Any, record: Any) -> None:
        """Write a record of a key that has no contents in memory."""
        self._append(False, key, record)

    def spill(self, contents: dict[Any, Any]) -> None:
        """Write the contents of keys that have no entries here yet."""
        for key, content in contents.items():
            self._append(True, key, content)

    def _append(self, is_contents: bool, key: Any, value: Any) -> None:
        part = hash(key) & (_PARTS - 1)
        buffer = self._buffers[part]
        buffer.append((is_contents, key, value))
        if len(buffer) >= _ENTRIES_PER_BLOCK:
            self._write(part)

    def _write(self, part: int) -> None:
        self._blocks[part].append(self._file.seek(0, 2))
        self._file.write(dump_state(self._buffers[part]))
        self._buffers[part].clear()

    def replay(self, fold: Fold) -> Iterator[dict[Any, Any]]:
        """Yield the contents by key, part after part."""
        for part in range(_PARTS):
            contents = self.replay_part(part, fold)
            if contents:
                yield contents

    def replay_part(self, part: int, fold: Fold) -> dict[Any, Any]:
        """Return the contents by key of one part."""
        first, step = fold.first, fold.step
        contents: dict[Any, Any] = {}
        for entries in self._entries(part):
            for is_contents, key, value in entries:
                if is_contents:
                    contents[key] = value
                else:
                    before = contents.get(key)
                    contents[key] = first(value) if before is None else step(before, value)
        return contents

    def _entries(self, part: int) -> Iterator[list[tuple[bool, Any, Any]]]:
        for position in self._blocks[part]:
            self._file.seek(position)
            yield next(load_states(self._file))
        # the fold may change contents in place, but the buffer must not change
        if self._buffers[part]:
            yield from load_states(BytesIO(dump_state(self._buffers[part])))

    def close(self) -> None:
        self._file.close()


def starts_of_windows(timestamp: int, size: int, slide: int, offset: int) -> tuple[int, int, range]:
    """Return the times (from, to) with the same windows as `timestamp`, and their starts, latest first."""
    # windows start at latest, latest - slide, … and contain the timestamp if they start after `beyond`
    latest = timestamp - (timestamp - offset) % slide
    beyond = latest - max(0, (latest + size - 1 - timestamp) // slide + 1) * slide
    starts = range(latest, beyond, -slide)
    return max(latest, beyond + size), min(latest, beyond + size) + slide, starts


#: Records handled between checks of memory.
_RECORDS_PER_CHECK = 1 << 16
_SAMPLE = 32
#: Marks that a record has more than one dictionary as its place.
_SEVERAL: dict[Any, Any] = {}


class PaneListener(Protocol):
    """Receives the events of windows by key. Keys are dictionary keys."""

    def emit(self, key: Any, window: TimeWindow, contents: Any) -> None:
        """The window of a key fires."""

    def emit_all(self, window: TimeWindow, contents: dict[Any, Any], last: bool) -> None:
        """The window of many keys fires; if it is the `last` time, it also ends."""

    def over(self, window: TimeWindow, keys: Iterable[Any]) -> None:
        """The window of these keys ends, some time after it has fired."""

    def late(self, value: Any, timestamp: int) -> None:
        """A record is too late for all of its windows."""


class Pane:
    """One window of all keys."""

    __slots__ = ("contents", "fired", "log", "window")

    def __init__(self, window: TimeWindow, fired: bool) -> None:
        self.window = window
        self.fired = fired
        self.contents: dict[Any, Any] = {}
        self.log: PaneLog | None = None  #: the place of keys that are not in `contents`, once memory is short

    def add(self, key: Any, value: Any, fold: Fold) -> None:
        """Add a record to the contents of the key in the window."""
        before = self.contents.get(key)
        if before is not None:
            self.contents[key] = fold.step(before, value)
        elif self.log is None or key in self.contents:
            self.contents[key] = fold.first(value)
        else:
            self.log.append(key, value)

    def contents_of(self, key: Any, fold: Fold) -> Any:
        """Return the contents of the key in the window."""
        if self.log is None or key in self.contents:
            return self.contents.get(key)
        return self.log.replay_part(hash(key) & (_PARTS - 1), fold).get(key)


class Panes:
    """The open windows of one subtask, of `size` milliseconds, one every `slide` milliseconds."""

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
        self._logging = False  #: whether new windows store their records on disk
        self._unchecked = 0
        self._next_due = MAX_WATERMARK  #: before this time no window fires or ends
        self.current: Any = None

    def add(self, values: list[Any], timestamps: list[int], keys: Iterable[Any]) -> None:
        """Handle records, all with a timestamp. If the user's function fails, `current` is its record."""
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
        if self._unchecked > _RECORDS_PER_CHECK:
            self._unchecked = 0
            self._check_memory()

    def _open_panes(self, timestamp: int) -> tuple[int, int, list[Pane]]:
        """Return the times (from, to) with the same windows as `timestamp`, and the open ones of these."""
        size, slide, panes = self._size, self._slide, self._panes
        low, high, starts = starts_of_windows(timestamp, size, slide, self._offset)
        opened = []
        for start in starts:
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
        return low, high, opened

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
        """Fire windows complete by `watermark` (milliseconds), and remove ended ones, in order of time."""
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
        """Check memory.

        If it is short, send records of keys that are new to their window to disk; if it is very short, all
        contents.
        """
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
        """Start again for the next key (BATCH mode), after all windows have fired."""
        self._watermark = MIN_WATERMARK
        self._logging = False
        self.close()

    def close(self) -> None:
        """Release memory and disk."""
        for pane in self._panes.values():
            if pane.log is not None:
                pane.log.close()
        self._panes.clear()
        self._next_due = MAX_WATERMARK


def _estimated_bytes(contents: dict[Any, Any]) -> int:
    """Estimate the bytes of a pane from its first and last keys."""
    samples = [*islice(contents.items(), _SAMPLE), *islice(reversed(contents.items()), _SAMPLE)]
    return len(contents) * sum(entry_bytes(key, value) for key, value in samples) // max(1, len(samples))
