"""Sort the records of one key group by key, and by timestamp within a key, in BATCH mode.

Held in memory if they fit; otherwise in sorted runs on disk that are merged, so even one key with most of the
data streams through.

Source: org.apache.flink.streaming.api.operators.sort.{SortingDataInput,MultiInputSortingDataInput}.
"""

import heapq
import pickle
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import groupby, repeat
from operator import itemgetter
from typing import IO, Any, NamedTuple, cast

from penstock.operators.chain.operator import MIN_WATERMARK, Timestamps, Values
from penstock.operators.common.serialized_keys import dictionary_key

_CHUNK = 4096

#: Timestamp, input, value: sorted as in Flink, by input number if timestamps are equal.
_Entry = tuple[int, int, Any]


class Portion(NamedTuple):
    """Records of one key for one input."""

    input_number: int
    values: Values
    timestamps: Timestamps


class KeySorter:
    """Collects the records of one key group.

    If they come from one input, and all or none have timestamps, they are stored in lists by key, of records
    or of timestamps with records: that is quicker than entries, which cover all cases.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._start()

    def _start(self) -> None:
        self._bytes = 0
        self._plain: defaultdict[Hashable, list[Any]] | None = defaultdict(list)
        self._plain_input = 0
        self._plain_stamped = False
        self._keys: dict[Hashable, int] = {}
        self._entries: list[list[_Entry] | None] = []
        self._runs: list[IO[bytes]] = []
        self._stamped = False

    def add(
        self, input_number: int, keys: list[Any], values: Values, timestamps: Timestamps, size_bytes: int
    ) -> None:
        """Add records; `size_bytes` is their approximate size."""
        if self._plain is not None and not self._plain_input:
            self._plain_input, self._plain_stamped = input_number, timestamps is not None
        plain = (self._plain_input, self._plain_stamped) == (input_number, timestamps is not None)
        if self._plain is not None and plain:
            lists = self._plain
            records = values if timestamps is None else zip(_without_none(timestamps), values, strict=True)
            for key, value in zip(keys, records, strict=True):
                kind = type(key)
                lists[key if kind is int or kind is str else dictionary_key(key)].append(value)
        else:
            self._to_entries()
            self._add_entries(input_number, map(dictionary_key, keys), values, timestamps)
        self._bytes += size_bytes
        if self._bytes > self._memory_bytes:
            self._to_entries()
            self._spill()

    def _to_entries(self) -> None:
        if self._plain is not None:
            lists, self._plain = self._plain, None
            for key, records in lists.items():
                stamps, values = _unzipped(records) if self._plain_stamped else (None, records)
                self._add_entries(self._plain_input, repeat(key, len(values)), values, stamps)

    def _add_entries(
        self, input_number: int, keys: Iterable[Hashable], values: Values, timestamps: Timestamps
    ) -> None:
        if timestamps is None:
            stamps: Iterable[int] = repeat(MIN_WATERMARK, len(values))
        else:
            self._stamped = True
            stamps = _without_none(timestamps)
        ordinals, entries = self._keys, self._entries
        for key, value, stamp in zip(keys, values, stamps, strict=True):
            ordinal = ordinals.setdefault(key, len(ordinals))
            if ordinal == len(entries):
                entries.append([(stamp, input_number, value)])
            elif (key_entries := entries[ordinal]) is None:
                entries[ordinal] = [(stamp, input_number, value)]
            else:
                key_entries.append((stamp, input_number, value))

    def drain(self) -> Iterator[Iterator[Portion]]:
        """Yield the records of each key, in order of the keys' first appearance. Empties the sorter."""
        if self._plain is not None:
            for records in self._plain.values():
                if not self._plain_stamped:
                    yield iter([Portion(self._plain_input, records, None)])
                    continue
                records.sort(key=_stamp)
                stamps, values = _unzipped(records)
                yield iter([Portion(self._plain_input, values, stamps)])
        elif not self._runs:
            for entries in self._entries:
                assert entries is not None
                entries.sort(key=_order)
                yield self._portions(iter(entries))
        else:
            self._spill()
            runs = [_read_run(run) for run in self._runs]
            merged = heapq.merge(*runs, key=lambda item: (item[0], item[1][0], item[1][1]))
            for _, items in groupby(merged, key=itemgetter(0)):
                yield self._portions(entry for _, entry in items)
        self.close()

    def close(self) -> None:
        """Forget everything, and delete the runs on disk."""
        for run in self._runs:
            run.close()
        self._start()

    def _portions(self, entries: Iterator[_Entry]) -> Iterator[Portion]:
        for input_number, input_entries in groupby(entries, key=itemgetter(1)):
            values: Values = []
            stamps: list[int | None] = []
            for stamp, _, value in input_entries:
                values.append(value)
                stamps.append(None if stamp == MIN_WATERMARK else stamp)
                if len(values) == _CHUNK and self._runs:
                    yield Portion(input_number, values, stamps if self._stamped else None)
                    values, stamps = [], []
            if values:
                yield Portion(input_number, values, stamps if self._stamped else None)

    def _spill(self) -> None:
        run: IO[bytes] = tempfile.TemporaryFile(prefix="penstock-sort-")  # noqa: SIM115 closed by close()
        for ordinal, entries in enumerate(self._entries):
            if entries:
                entries.sort(key=_order)
                for start in range(0, len(entries), _CHUNK):
                    pickle.dump((ordinal, entries[start : start + _CHUNK]), run, protocol=5)
        self._entries = [None] * len(self._entries)
        self._runs.append(run)
        self._bytes = 0


_order = itemgetter(0, 1)
_stamp = itemgetter(0)


def _without_none(timestamps: list[int | None]) -> list[int]:
    if None not in timestamps:
        return cast(list[int], timestamps)
    return [MIN_WATERMARK if stamp is None else stamp for stamp in timestamps]


def _unzipped(records: list[tuple[int, Any]]) -> tuple[list[int | None], Values]:
    """Return timestamps (None if a record has none) and records."""
    stamps = [None if stamp == MIN_WATERMARK else stamp for stamp, _ in records]
    return stamps, [value for _, value in records]


def _read_run(run: IO[bytes]) -> Iterator[tuple[int, _Entry]]:
    run.seek(0)
    while True:
        try:
            ordinal, entries = pickle.load(run)
        except EOFError:
            return
        for entry in entries:
            yield ordinal, entry
