"""Timers in order of their time, each at most once, until they fire or are deleted.

Timers are grouped by time: a heap holds the distinct times, a dictionary the timers of each. Registering and
deleting cost one dictionary access each, and the many timers that windows set for the same moment share one
heap entry.

Source: org.apache.flink.streaming.api.operators.InternalTimerServiceImpl, HeapPriorityQueueSet; for rounds
org.apache.flink.streaming.api.operators.python.AbstractPythonFunctionOperator.advanceWatermark.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from io import BytesIO
from itertools import accumulate, chain, count, groupby
from operator import index, itemgetter
from typing import Any

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.state.state_table import dump_state, load_states, open_temporary_database
from penstock.operators.state.stored_state import StoredTimers

#: Number of times, or entries of one time, that are removed together.
_TIMES_AT_ONCE = 1024
_NEVER = MIN_WATERMARK - 1
_order = count()

#: Called with some entries before they are yielded.
Prepare = Callable[[list[Any]], None]


class TimerQueue:
    """Timers of one time domain, each with a time (milliseconds) and an entry that identifies its owner."""

    __slots__ = (
        "_added",
        "_entries",
        "_firing_until",
        "_heap",
        "_postponed",
        "_spilled",
        "_spilled_from",
        "_stored",
        "accepting",
        "count",
    )

    def __init__(self) -> None:
        self._heap: list[int] = []
        # a lone entry is a tuple of one, which has a third of the size of a dictionary
        self._entries: dict[int, tuple[Any] | dict[Any, None]] = {}
        self.accepting = True  #: if False, new timers are ignored
        self.count = 0  #: the number of timers in memory
        self._firing_until = _NEVER  #: the limit of the current round
        self._added: dict[tuple[int, Any], None] = {}  #: registered for a time within the current round
        self._postponed: list[tuple[int, int, Any]] = []  #: a heap: they fire later in the current round
        self._spilled: SpilledTimers | None = None
        self._stored: StoredTimers | None = None  #: timers of earlier batches
        self._spilled_from: int | None = None  #: the first time that has timers on disk

    def begin_with(self, stored: StoredTimers) -> None:
        """Begin with the timers of earlier batches."""
        self._stored = stored
        self._spilled_from = self._first_on_disk()

    def all_timers(self) -> Iterator[tuple[int, Any]]:
        """Yield the timers that are waiting, except those of earlier batches."""
        for time, entries in sorted(self._entries.items(), key=itemgetter(0)):
            for entry in entries:
                yield time, entry
        if self._spilled is not None:
            yield from self._spilled.all()

    def add(self, timestamp: int, entry: Any) -> None:
        """Register a timer, unless it exists.

        Raises TypeError if `timestamp` is not an integer, OverflowError if it exceeds 64 bits.
        """
        if type(timestamp) is not int:
            timestamp = index(timestamp)
        if not MIN_WATERMARK <= timestamp <= MAX_WATERMARK:
            raise OverflowError(f"a timer's time must fit 64 bits, got {timestamp}")
        if timestamp <= self._firing_until:
            self._added[timestamp, entry] = None
        elif self.accepting:
            self._insert(timestamp, entry)

    def _insert(self, timestamp: int, entry: Any) -> None:
        same_time = self._entries.get(timestamp)
        if same_time is None:
            self._entries[timestamp] = (entry,)
            heappush(self._heap, timestamp)
        elif entry in same_time:
            return
        elif type(same_time) is dict:
            same_time[entry] = None
        else:
            self._entries[timestamp] = {same_time[0]: None, entry: None}
        self.count += 1

    def postpone(self, timestamp: int, entry: Any) -> None:
        """Let a timer that `due` has just yielded fire at a later time instead, maybe in the same round."""
        if timestamp <= self._firing_until:
            heappush(self._postponed, (timestamp, next(_order), entry))
        else:
            self._insert(timestamp, entry)

    def remove(self, timestamp: int, entry: Any) -> None:
        """Delete a timer if it exists and is not part of the current round."""
        if timestamp <= self._firing_until:
            self._added.pop((timestamp, entry), None)
            return
        if self._spilled_from is not None and timestamp >= self._spilled_from:
            for timers in (self._spilled, self._stored):
                if timers is not None:
                    timers.remove(timestamp, entry)
        same_time = self._entries.get(timestamp)
        if same_time is None or entry not in same_time:
            return
        if type(same_time) is dict and len(same_time) > 1:
            del same_time[entry]
        else:
            # the time itself stays on the heap until it has passed
            del self._entries[timestamp]
        self.count -= 1

    def next_time(self) -> int | None:
        """Return the time of the first timer, or an earlier one; None if there is none."""
        if not self._heap or (self._spilled_from is not None and self._spilled_from < self._heap[0]):
            return self._spilled_from
        return self._heap[0]

    def due(self, limit: int, prepare: Prepare | None = None) -> Iterator[tuple[int, Any]]:
        """Remove and yield the timers up to `limit` in rounds, each in order of time, then of registration.

        A round has all timers that are due when it begins. As in PyFlink's operators, where the effects of
        timers show at the end of a bundle, timers registered during a round belong to the next one, and
        timers deleted during a round fire nevertheless.
        """
        while (first := self.next_time()) is not None and first <= limit:
            self._firing_until = limit
            while self._spilled_from is not None and self._spilled_from <= limit:
                yield from self._take(self._spilled_from - 1, prepare)
                self._load_spilled(limit)
            yield from self._take(limit, prepare)
            yield from self._take_postponed(limit)
            self._firing_until = _NEVER
            added, self._added = self._added, {}
            for timestamp, entry in added:
                self._insert(timestamp, entry)

    def due_at_last(self) -> Iterator[tuple[int, Any]]:
        """Remove and yield all timers in order of time. Timers deleted meanwhile do not fire."""
        heap, entries = self._heap, self._entries
        while heap:
            time = heappop(heap)
            for entry in list(entries.get(time, ())):
                if entry in entries.get(time, ()):
                    self.remove(time, entry)
                    yield time, entry

    def spill(self, keep: int) -> None:
        """Move all but the first `keep` timers to disk. Must not be called while timers are being removed."""
        times = sorted(self._entries)
        position = bisect_right(list(accumulate(len(self._entries[time]) for time in times)), keep)
        if position == len(times):
            return
        if self._spilled is None:
            self._spilled = SpilledTimers()
        later = times[position:]
        self._spilled.put((time, entry) for time in later for entry in self._entries[time])
        for time in later:
            self.count -= len(self._entries.pop(time))
        # a sorted list is a heap
        self._heap[:] = times[:position]
        self._spilled_from = self._first_on_disk()

    def _first_on_disk(self) -> int | None:
        firsts = [timers.first_time() for timers in (self._spilled, self._stored) if timers is not None]
        return min((first for first in firsts if first is not None), default=None)

    def _load_spilled(self, limit: int) -> None:
        for source in (self._spilled, self._stored):
            first = None if source is None else source.first_time()
            if source is None or first is None or first > limit:
                continue
            for time, timers in groupby(source.take_first(limit), key=itemgetter(0)):
                # those on disk were registered first
                later = self._entries.pop(time, ())
                self.count -= len(later)
                for entry in chain((entry for _, entry in timers), later):
                    self._insert(time, entry)
        self._spilled_from = self._first_on_disk()

    def _take(self, limit: int, prepare: Prepare | None) -> Iterator[tuple[int, Any]]:
        heap, entries = self._heap, self._entries
        while heap and heap[0] <= limit:
            portion: list[tuple[int, tuple[Any] | dict[Any, None]]] = []
            while heap and heap[0] <= limit and len(portion) < _TIMES_AT_ONCE:
                time = heappop(heap)
                due = entries.pop(time, None)
                if due is not None:
                    self.count -= len(due)
                    portion.append((time, due))
            if prepare is not None:
                prepare([due[0] for _, due in portion if type(due) is tuple])
            for time, due in portion:
                if self._postponed:
                    yield from self._take_postponed(time - 1)
                if type(due) is tuple:
                    yield time, due[0]
                    continue
                many = list(due)
                for start in range(0, len(many), _TIMES_AT_ONCE):
                    slice_ = many[start : start + _TIMES_AT_ONCE]
                    if prepare is not None:
                        prepare(slice_)
                    for entry in slice_:
                        yield time, entry

    def _take_postponed(self, limit: int) -> Iterator[tuple[int, Any]]:
        while self._postponed and self._postponed[0][0] <= limit:
            timestamp, _, entry = heappop(self._postponed)
            yield timestamp, entry

    def clear(self) -> None:
        self._heap.clear()
        self._postponed.clear()
        self._entries.clear()
        self._added.clear()
        self.count = 0
        self._firing_until = _NEVER
        self._stored = self._spilled_from = None
        if self._spilled is not None:
            self._spilled.close()
            self._spilled = None


# Timers on disk: the last ones to fire


_TIMERS_AT_ONCE = 50_000


class SpilledTimers:
    """Pairs of time (milliseconds) and entry, removed by time."""

    def __init__(self) -> None:
        self._connection = open_temporary_database()
        self._connection.execute("CREATE TABLE timers (time INTEGER, hash INTEGER, entry BLOB)")
        self._connection.execute("CREATE INDEX by_time ON timers (time, hash)")

    def put(self, timers: Iterable[tuple[int, Any]]) -> None:
        """Add timers, in order of time."""
        self._connection.executemany(
            "INSERT INTO timers VALUES (?, ?, ?)",
            ((time, hash(entry), dump_state(entry)) for time, entry in timers),
        )

    def first_time(self) -> int | None:
        """Return the time of the first timer; None if there is none."""
        first: int | None = self._connection.execute("SELECT min(time) FROM timers").fetchone()[0]
        return first

    def all(self) -> Iterator[tuple[int, Any]]:
        """Yield all timers, which stay."""
        rows = self._connection.execute("SELECT time, entry FROM timers ORDER BY time, rowid")
        yield from ((time, _entry(pickled)) for time, pickled in rows)

    def take_first(self, limit: int = MAX_WATERMARK) -> list[tuple[int, Any]]:
        """Remove and return the first timers, and all others with the same time as the last of them.

        These may include timers after `limit`.
        """
        last = self._connection.execute(
            "SELECT max(time) FROM (SELECT time FROM timers ORDER BY time LIMIT ?)", (_TIMERS_AT_ONCE,)
        ).fetchone()
        rows = self._connection.execute(
            "SELECT time, entry FROM timers WHERE time <= ? ORDER BY time, rowid", last
        ).fetchall()
        self._connection.execute("DELETE FROM timers WHERE time <= ?", last)
        return [(time, _entry(pickled)) for time, pickled in rows]

    def remove(self, time: int, entry: Any) -> None:
        """Delete a timer if it is here."""
        rows = self._connection.execute(
            "SELECT rowid, entry FROM timers WHERE time = ? AND hash = ?", (time, hash(entry))
        ).fetchall()
        for number, pickled in rows:
            if _entry(pickled) == entry:
                self._connection.execute("DELETE FROM timers WHERE rowid = ?", (number,))

    def close(self) -> None:
        self._connection.close()


def _entry(pickled: bytes) -> Any:
    return next(load_states(BytesIO(pickled)))
