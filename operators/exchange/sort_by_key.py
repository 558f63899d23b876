"""BATCH mode: the records of one key group, key by key, each key's sorted by timestamp.

In memory as long as they fit; otherwise in sorted runs on disk that are merged, so that also one key with
most of the data streams through.

Source: org.apache.flink.streaming.api.operators.sort.{SortingDataInput,MultiInputSortingDataInput}.
"""

import heapq
import pickle
import tempfile
from collections.abc import Hashable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import IO, Any, NamedTuple

from operators.chain.operator import MIN_WATERMARK, Timestamps, Values
from operators.common.hashable_key import hashable_key

_CHUNK = 4096

#: Timestamp, input, value: sorts as Flink does, an input before the next one where timestamps are equal.
_Entry = tuple[int, int, Any]


class Portion(NamedTuple):
    """Records of one key for one input."""

    input_number: int
    values: Values
    timestamps: Timestamps


class KeySorter:
    """Collects the records of one key group."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._bytes = 0
        self._keys: dict[Hashable, int] = {}
        self._entries: list[list[_Entry] | None] = []
        self._runs: list[IO[bytes]] = []
        self._stamped = False

    def add(
        self, input_number: int, keys: list[Any], values: Values, timestamps: Timestamps, size_bytes: int
    ) -> None:
        """Add records; `size_bytes` is roughly what they take."""
        if timestamps is None:
            stamps: Any = [MIN_WATERMARK] * len(values)
        else:
            self._stamped = True
            stamps = [MIN_WATERMARK if stamp is None else stamp for stamp in timestamps]
        ordinals, entries = self._keys, self._entries
        for key, value, stamp in zip(keys, values, stamps, strict=True):
            ordinal = ordinals.setdefault(hashable_key(key), len(ordinals))
            if ordinal == len(entries):
                entries.append([(stamp, input_number, value)])
            elif (some := entries[ordinal]) is None:
                entries[ordinal] = [(stamp, input_number, value)]
            else:
                some.append((stamp, input_number, value))
        self._bytes += size_bytes
        if self._bytes > self._memory_bytes:
            self._spill()

    def drain(self) -> Iterator[Iterator[Portion]]:
        """Key by key, in order of first appearance: its records. Empties the sorter."""
        if not self._runs:
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
        """Forget everything; delete what is on disk."""
        for run in self._runs:
            run.close()
        self._runs, self._entries, self._keys, self._bytes = [], [], {}, 0
        self._stamped = False

    def _portions(self, entries: Iterator[_Entry]) -> Iterator[Portion]:
        for input_number, some in groupby(entries, key=itemgetter(1)):
            values: Values = []
            stamps: list[int | None] = []
            for stamp, _, value in some:
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


def _read_run(run: IO[bytes]) -> Iterator[tuple[int, _Entry]]:
    run.seek(0)
    while True:
        try:
            ordinal, entries = pickle.load(run)
        except EOFError:
            return
        for entry in entries:
            yield ordinal, entry
