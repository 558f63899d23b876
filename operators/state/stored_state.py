"""The state of one operator in one subtask that lasts from batch to batch.

A subtask begins with the segments of the last version, loads entries by key as records and timers need them,
and writes what has changed as new segments. If there are many segments, they are merged.

Source: org.apache.flink.runtime.state.KeyedStateBackend and StateSnapshotTransformer, for the content of a
snapshot; org.apache.flink.streaming.api.operators.InternalTimeServiceManager, for timers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.operators.common.key_groups import murmur_hash
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.state.state_segments import (
    EntryForm,
    KeyForm,
    Numbers,
    Segment,
    SegmentRecord,
    SegmentStore,
    equal_rows,
    holds_pickles,
    segment_columns,
    taken,
)

Groups = tuple[int, int]
"""The first key group of a range, and the first one after it."""

EVENT_TIMERS, PROCESSING_TIMERS = "event_timers", "processing_timers"
TIMERS = "timers"
"""The kind of the two tables of timers."""

BROADCAST = "broadcast"
"""The kind of tables with one row, a map, which all subtasks read and the first one writes."""
_OF_BROADCAST = True
"""`namespaced` of these tables, which distinguishes them from keyed state of the same name."""

_MOST_SEGMENTS = 40
"""Segments of a table; with more of them, some are merged."""

_CHANGES_PER_SNAPSHOT = 4
"""Rows of changes for each row of the oldest segment, at which all segments are merged."""


@dataclass(frozen=True, kw_only=True)
class TableRecord:
    """The segments of one state for a range of key groups, oldest first."""

    state: str
    namespaced: bool
    kind: str
    type: str
    segments: tuple[SegmentRecord, ...]


@dataclass(frozen=True, kw_only=True)
class OperatorRecord:
    """An operator with state, as a subtask gets it, and as it hands it back."""

    operator_id: str
    uid: str | None
    name: str
    max_parallelism: int
    key_type: TypeInformation | None
    key_text: str | None = None  #: the type of keys in the segments; None: there are none
    tables: Mapping[Groups, Sequence[TableRecord]] = field(default_factory=dict)  #: by key groups
    watermark: int | None = None


class StoredState:
    """The state of one operator, for the key groups from `first` up to `last`."""

    def __init__(self, record: OperatorRecord, store: SegmentStore, first: int, last: int) -> None:
        self.record, self.first, self.last = record, first, last
        self._store = store
        self.key_form = KeyForm(record.key_type, record.max_parallelism)
        if record.key_text not in (None, self.key_form.text):
            raise TypeError(
                f"the keys of operator {record.name!r} must be of the type of its state, "
                f"{record.key_text}, got {self.key_form.text}"
            )
        self._parts: dict[tuple[str, bool], list[tuple[Groups, TableRecord]]] = {}
        for groups, tables in sorted(record.tables.items()):
            overlap = groups[0] < last and first < groups[1]
            for table in tables:
                if overlap or table.kind == BROADCAST:
                    self._parts.setdefault((table.state, table.namespaced), []).append((groups, table))
        self._records = {place: _together(parts) for place, parts in self._parts.items()}
        self._segments: dict[str, Segment] = {}
        self.timers: dict[str, StoredTimers] = {}

    def segments(self) -> list[SegmentRecord]:
        """Return the segments with rows for these key groups."""
        return [segment for record in self._records.values() for segment in record.segments]

    def open_table(self, name: str, namespaced: bool, form: EntryForm) -> StoredTable:
        """Return the stored entries of a state. Raises TypeError if they are of another kind or type."""
        return StoredTable(self._open(self._record_of(name, namespaced, form)), self.key_form, form)

    def _record_of(self, name: str, namespaced: bool, form: EntryForm) -> TableRecord | None:
        record = self._records.get((name, namespaced))
        if record is not None and (record.kind, record.type) != (form.kind, form.text):
            raise TypeError(
                f"the new state serializer of state {name!r} of operator {self.record.name!r} must not be "
                f"incompatible with the old one: it was {record.kind} of {record.type}, and is "
                f"{form.kind} of {form.text}"
            )
        return record

    def read_broadcast(self, name: str, form: EntryForm) -> dict[Any, Any]:
        """Return the entries of a broadcast state. Raises TypeError if they are of another type."""
        record = self._record_of(name, _OF_BROADCAST, form)
        if record is None:
            return {}
        (segment,) = self._read(record.segments)
        entries: dict[Any, Any] = segment.values([0], form)[0]
        return entries

    def written_broadcast(self, name: str, form: EntryForm, entries: Mapping[Any, Any]) -> TableRecord:
        """Write a broadcast state as a segment with one row, unless it has not changed.

        Source: org.apache.flink.runtime.state.HeapBroadcastState; all subtasks have the same entries.
        """
        record = self._records.get((name, _OF_BROADCAST))
        segments = () if record is None else record.segments
        column = form.encode([entries])
        before = [segment.batch.column("value") for segment in self._read(segments)]
        if not before or not equal_rows(column, before[0]).all():
            numbers = KeyForm(Types.LONG(), self.key_form.max_parallelism)
            place = _number_in_first_group(numbers.max_parallelism)
            columns = segment_columns([place], numbers, [False], values=column, namespaced=False)
            columns["key"] = pa.nulls(1, pa.int64())
            segments = (self._store.write(columns, pickled=form.pickled),)
        return TableRecord(
            state=name, namespaced=_OF_BROADCAST, kind=BROADCAST, type=form.text, segments=segments
        )

    def open_timers(self, name: str, namespaced: bool) -> StoredTimers:
        """Return the stored timers of a time domain."""
        stored = [
            TimerSegment(segment, record, max(first, self.first), min(last, self.last))
            for (first, last), table in self._parts.get((name, namespaced), ())
            for segment, record in zip(self._read(table.segments), table.segments, strict=True)
        ]
        timers = self.timers[name] = StoredTimers(stored, self.key_form)
        return timers

    def _open(self, record: TableRecord | None) -> list[Segment]:
        """Return the segments of a table, newest first."""
        return [] if record is None else self._read(record.segments)[::-1]

    def _read(self, segments: Sequence[SegmentRecord]) -> list[Segment]:
        for segment in segments:
            if segment.file not in self._segments:
                self._segments[segment.file] = self._store.open(segment)
        return [self._segments[segment.file] for segment in segments]

    def written_table(
        self, name: str, namespaced: bool, stored: StoredTable, entries: Iterable[tuple[Any, Any]]
    ) -> TableRecord:
        """Write the changed entries of a state, all of which have been loaded, as a segment."""
        form = stored.form
        keys, values = [], []
        for key, value in entries:
            keys.append(key)
            values.append(value)
        record = self._records.get((name, namespaced))
        segments = list(record.segments) if record is not None else []
        column = form.encode(values)
        changed = stored.changed(keys, column)
        deleted = stored.deleted(keys)
        if changed.size or deleted:
            written = [keys[row] for row in changed.tolist()] + deleted
            column = column.take(pa.array(changed, pa.int64()))
            if deleted:
                column = pa.concat_arrays([column, pa.nulls(len(deleted), column.type)])
            flags = [False] * int(changed.size) + [True] * len(deleted)
            columns = segment_columns(written, self.key_form, flags, values=column, namespaced=namespaced)
            start = _first_to_merge([*(segment.rows for segment in segments), len(written)])
            if start is not None:
                segments = self._merged(segments, columns, form, start)
            else:
                pickled = holds_pickles(columns, self.key_form, form)
                segments.append(self._store.write(columns, pickled=pickled))
        return TableRecord(
            state=name, namespaced=namespaced, kind=form.kind, type=form.text, segments=tuple(segments)
        )

    def written_timers(self, name: str, namespaced: bool, queued: Iterable[tuple[int, Any]]) -> TableRecord:
        """Write the timers of a time domain that are new, and those of earlier batches that were deleted."""
        timers = self.timers[name]
        new = list(queued)
        deleted = sorted(timers.removed, key=_time_of)
        segments = timers.remaining_records()
        rows = [*deleted, *new]
        if len(segments) >= _MOST_SEGMENTS or not timers.has_only(self.first, self.last):
            rows, deleted, segments = [*timers.alive(), *new], [], []
        if rows:
            columns = segment_columns(
                [entry for _, entry in rows],
                self.key_form,
                [True] * len(deleted) + [False] * (len(rows) - len(deleted)),
                times=[time for time, _ in rows],
                namespaced=namespaced,
            )
            segments.append(self._store.write(columns, pickled=holds_pickles(columns, self.key_form, None)))
        return TableRecord(
            state=name, namespaced=namespaced, kind=TIMERS, type=TIMERS, segments=tuple(segments)
        )

    def unread_tables(self, written: Collection[tuple[str, bool]]) -> list[TableRecord]:
        """Return the tables that this batch has not used, which stay as they are.

        Broadcast state is the first subtask's.
        """
        return [
            record
            for place, record in self._records.items()
            if place not in written and (record.kind != BROADCAST or self.is_first)
        ]

    @property
    def is_first(self) -> bool:
        """Whether it belongs to the first subtask, which writes broadcast state for all of them."""
        return self.first == 0

    def _merged(
        self, records: list[SegmentRecord], newest: dict[str, pa.Array], form: EntryForm, start: int
    ) -> list[SegmentRecord]:
        """Merge new rows into segments, from the one at `start` on."""
        batch = pa.RecordBatch.from_arrays(list(newest.values()), list(newest))
        segments = [*self._read(records[start:]), Segment(batch, authentic=True)]
        merged = self._merge(segments, form, drop_deleted=start == 0)
        kept = records[:start]
        if merged is not None:
            kept.append(self._store.write(merged, pickled=holds_pickles(merged, self.key_form, form)))
        return kept

    def _merge(
        self, segments: list[Segment], form: EntryForm, *, drop_deleted: bool
    ) -> dict[str, pa.Array] | None:
        """Return the newest row of each entry; without deleted ones, if there is no older segment."""
        most = self.key_form.max_parallelism
        newest_first = segments[::-1]
        rows = [
            segment.within(np.arange(segment.batch.num_rows), most, self.first, self.last)
            for segment in newest_first
        ]
        columns: list[dict[str, pa.Array]] = []
        chosen = self._newest_rows(newest_first, rows)
        for segment, wanted in zip(newest_first, chosen, strict=True):
            if drop_deleted and wanted.size:
                places = pa.array(wanted)
                gone = segment.batch.column("deleted").take(places).to_numpy(zero_copy_only=False)
                wanted = wanted[~gone]  # noqa: PLW2901
                alive = segment.batch.column("value").take(pa.array(wanted))
                wanted = wanted[~form.expired(alive, time.time_ns() // 1_000_000)]  # noqa: PLW2901
            if wanted.size:
                names = segment.batch.schema.names
                columns.append(taken({name: segment.batch.column(name) for name in names}, wanted))
        if not columns:
            return None
        together = {name: pa.concat_arrays([part[name] for part in columns]) for name in columns[0]}
        return taken(together, np.argsort(together["hash"].to_numpy(), kind="stable"))

    def _newest_rows(self, segments: list[Segment], rows: list[Numbers]) -> list[Numbers]:
        """Return of some rows of segments, newest segment first, those that no newer one replaces."""
        number_of = np.repeat(np.arange(len(segments)), [part.size for part in rows])
        row_of = np.concatenate(rows)
        hashes = np.concatenate([segment.hashes[part] for segment, part in zip(segments, rows, strict=True)])
        order = np.argsort(hashes, kind="stable")
        hashes, number_of, row_of = hashes[order], number_of[order], row_of[order]
        repeats = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        newest = np.ones(hashes.size, np.bool_)
        newest[repeats] = False
        # nearly always, all rows of a hash are of one entry; keys of other hashes are compared one by one
        names = [name for name in ("key", "namespace") if name in segments[0].batch.schema.names]
        same = np.ones(repeats.size, np.bool_)
        for name in names:
            columns = [segment.batch.column(name) for segment in segments]
            if len({column.type for column in columns}) > 1:
                same[:] = False
                continue
            starts = np.cumsum([0, *map(len, columns)])
            together = pa.concat_arrays(columns)
            places = starts[number_of] + row_of
            same &= equal_rows(
                together.take(pa.array(places[repeats - 1])), together.take(pa.array(places[repeats]))
            )
        group = np.cumsum(newest) - 1
        unclear = np.isin(group, group[repeats[~same]])
        entries: dict[Any, tuple[int, int]] = {}
        for number, segment in enumerate(segments):
            again = np.sort(row_of[unclear & (number_of == number)])
            for key, _, row in segment.entries(again, self.key_form) if again.size else ():
                entries.setdefault(key, (number, row))
        newest &= ~unclear
        return [
            np.sort(
                np.concatenate(
                    [
                        row_of[newest & (number_of == number)],
                        np.array([row for place, row in entries.values() if place == number], np.int64),
                    ]
                )
            )
            for number in range(len(segments))
        ]


def _first_to_merge(rows: Sequence[int]) -> int | None:
    """Return from which segment on all are merged, by the rows of each, oldest first; None if none is.

    All are merged if the later ones have several times the rows of the first. Then merges write little
    compared with the changes, whatever their number. If there are many segments, they are merged from the
    first one on that is not larger than the rest together.
    """
    if len(rows) > 1 and rows[0] * _CHANGES_PER_SNAPSHOT <= sum(rows[1:]):
        return 0
    if len(rows) <= _MOST_SEGMENTS:
        return None
    return next((at for at in range(len(rows) - 1) if rows[at] <= sum(rows[at + 1 :])), 1)


@cache
def _number_in_first_group(max_parallelism: int) -> int:
    form = KeyForm(Types.LONG(), max_parallelism)
    return next(number for number in count() if not murmur_hash(form.hashes([number]))[0] % max_parallelism)


def _together(parts: list[tuple[Groups, TableRecord]]) -> TableRecord:
    """Return the segments of several ranges of key groups as one list, oldest first."""
    segments = {segment.file: segment for _, table in parts for segment in table.segments}
    return replace(parts[0][1], segments=tuple(sorted(segments.values(), key=_version_of)))


def _version_of(segment: SegmentRecord) -> str:
    return segment.file.split("-")[0]


def _time_of(timer: tuple[int, Any]) -> int:
    return timer[0]


class StoredTable:
    """The stored entries of one state; remembers where each loaded entry stands."""

    def __init__(self, segments: list[Segment], key_form: KeyForm, form: EntryForm) -> None:
        self.form = form
        self._segments, self._key_form = segments, key_form  # newest first
        self._origins: dict[Any, tuple[int, int]] = {}
        self._looked_up: set[Any] = set()

    def find(self, keys: Iterable[Any], *, namespaced: bool) -> dict[Any, Any]:
        """Return the entries of stream keys that were not looked up before."""
        if not self._segments:
            return {}
        looked_up = self._looked_up
        wanted = [key for key in keys if key not in looked_up]
        if not wanted:
            return {}
        looked_up.update(wanted)
        known = set(wanted)
        hashes, counts = np.unique(self._key_form.hashes(wanted), return_counts=True)
        single = counts == 1
        seen: set[Any] = set()
        entries: dict[Any, Any] = {}
        for number, segment in enumerate(self._segments):
            rows = segment.rows_of(hashes)
            if not rows.size:
                continue
            found, places, known_rows = [], [], []
            for key, deleted, row in segment.entries(rows, self._key_form):
                if (key[0] if namespaced else key) not in known:
                    continue
                known_rows.append(row)
                if key in seen:
                    continue
                seen.add(key)
                if not deleted:
                    found.append(key)
                    places.append(row)
            if found:
                values = segment.values(places, self.form)
                entries.update(zip(found, values, strict=True))
                self._origins.update(zip(found, ((number, row) for row in places), strict=True))
            if not namespaced:  # what is found is not looked for in older segments
                left = ~(single & np.isin(hashes, segment.hashes[known_rows], assume_unique=False))
                hashes, single = hashes[left], single[left]
        return entries

    def changed(self, keys: Sequence[Any], column: pa.Array) -> Numbers:
        """Return the places of `keys` whose entry, in `column`, is not the stored one."""
        changed = np.ones(len(keys), np.bool_)
        by_segment: dict[int, tuple[list[int], list[int]]] = {}
        for place, key in enumerate(keys):
            origin = self._origins.get(key)
            if origin is not None:
                places, rows = by_segment.setdefault(origin[0], ([], []))
                places.append(place)
                rows.append(origin[1])
        for number, (places, rows) in by_segment.items():
            old = self._segments[number].batch.column("value").take(pa.array(rows, pa.int64()))
            changed[places] = ~equal_rows(column.take(pa.array(places, pa.int64())), old)
        return np.flatnonzero(changed)

    def deleted(self, keys: Iterable[Any]) -> list[Any]:
        """Return the stored entries that were loaded and are not among `keys`."""
        if not self._origins:
            return []
        alive = set(keys)
        return [key for key in self._origins if key not in alive]


class TimerSegment(NamedTuple):
    """A segment of timers, of which the key groups from `first` up to `last` belong to this subtask."""

    segment: Segment
    record: SegmentRecord
    first: int
    last: int


class StoredTimers:
    """Timers of earlier batches, which a TimerQueue takes by time, as it takes timers that it has spilled."""

    def __init__(self, stored: list[TimerSegment], key_form: KeyForm) -> None:
        self.removed: dict[tuple[int, Any], None] = {}  #: deleted in this batch, and not taken
        self._cleared: int | None = None  #: timers up to this time have been taken
        self._stored, self._key_form = stored, key_form

    def first_time(self) -> int | None:
        """Return the time of the first timer, or an earlier one; None if there is none."""
        times = [
            int(part.segment.times[start])
            for part in self._stored
            if (start := self._start(part)) < part.record.rows
        ]
        return min(times, default=None)

    def _start(self, part: TimerSegment) -> int:
        """Return the first row of a segment that was not taken."""
        limit = self._gone(part)
        return 0 if limit is None else int(np.searchsorted(part.segment.times, limit, "right"))

    def _gone(self, part: TimerSegment) -> int | None:
        limits = [limit for limit in (part.record.cleared, self._cleared) if limit is not None]
        return max(limits, default=None)

    def take_first(self, limit: int) -> list[tuple[int, Any]]:
        """Remove and return the timers up to a time, in its order, then in the order of registration."""
        alive = sorted(self._until(limit), key=_time_of)
        self._cleared = limit if self._cleared is None else max(limit, self._cleared)
        self.removed = {timer: None for timer in self.removed if timer[0] > limit}
        return alive

    def _until(self, limit: int | None) -> Iterable[tuple[int, Any]]:
        alive: dict[tuple[int, Any], None] = {}
        for part in self._stored:
            segment, start = part.segment, self._start(part)
            end = part.record.rows if limit is None else int(np.searchsorted(segment.times, limit, "right"))
            rows = np.arange(start, max(start, end))
            rows = segment.within(rows, self._key_form.max_parallelism, part.first, part.last)
            if rows.size:
                times = segment.times[rows].tolist()
                entries = segment.entries(rows, self._key_form)
                for time, (entry, deleted, _) in zip(times, entries, strict=True):
                    if deleted:
                        alive.pop((time, entry), None)
                    else:
                        alive.setdefault((time, entry))
        for timer in self.removed:
            alive.pop(timer, None)
        return alive

    def alive(self) -> list[tuple[int, Any]]:
        """Return all timers that are left."""
        return sorted(self._until(None), key=_time_of)

    def remove(self, time: int, entry: Any) -> None:
        """Delete a timer, if it exists."""
        if self._stored and (self._cleared is None or time > self._cleared):
            self.removed[time, entry] = None

    def has_only(self, first: int, last: int) -> bool:
        """Whether all segments were written for this range of key groups."""
        return all((part.first, part.last) == (first, last) for part in self._stored)

    def remaining_records(self) -> list[SegmentRecord]:
        """Return the segments that may have timers left, oldest first."""
        return [
            replace(part.record, cleared=self._gone(part))
            for part in self._stored
            if self._start(part) < part.record.rows
        ]
