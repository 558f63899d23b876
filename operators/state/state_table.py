"""The values of one state by key: in memory in two generations, the rest on disk.

All access is to `entries`, a plain dictionary. Keys are loaded into it before they are worked on, so that
the operators need not know of the rest. When memory is short the generations shift: what has not been loaded
since the last shift goes to disk. That comes close to "least recently used" and costs nothing per access.
"""

from collections.abc import Collection
from itertools import islice
from typing import Any

from penstock.operators.chain.describe_error import describe_record
from penstock.operators.common.entry_size import entry_bytes
from penstock.operators.common.serialized_keys import original_key
from penstock.operators.state.spilled_entries import SpilledEntries
from penstock.operators.state.value_check import Check

_SAMPLE = 16


class StateTable:
    """Values of one state by key (or by key and namespace)."""

    __slots__ = ("_number", "_older", "_spilled", "check", "entries", "name", "namespaced", "written")

    def __init__(self, name: str, number: int, spilled: SpilledEntries, *, namespaced: bool = False) -> None:
        self.name, self.namespaced = name, namespaced
        self.entries: dict[
            Any, Any
        ] = {}  #: replaced between two calls of `process`, so do not keep it longer
        self._older: dict[Any, Any] = {}
        self._number, self._spilled = number, spilled
        self.check: Check | None = None  #: raises where an entry is not of the declared type
        self.written: set[Any] = set()  #: keys whose entries `commit` checks

    def load(self, keys: Collection[Any]) -> None:
        """Load what is kept for these distinct keys into `entries`."""
        entries, older = self.entries, self._older
        missing = [key for key in keys if key not in entries]
        if not missing:
            return
        if older:
            unfound = []
            for key in missing:
                if key in older:
                    entries[key] = older.pop(key)
                else:
                    unfound.append(key)
            missing = unfound
        if self._spilled.has(self._number) and missing:
            entries.update(self._spilled.take(self._number, missing))

    def commit(self) -> None:
        """Check what is left of the entries that were written since the last time.

        Raises TypeError, OverflowError or ValueError that name the state and the key.
        """
        written, self.written = self.written, set()
        if self.check is None:
            return
        for key in written:
            if key in self.entries:
                try:
                    self.check(self.entries[key])
                except (TypeError, OverflowError, ValueError) as error:
                    raise type(error)(f"{self._described(key)}: {error}") from error

    def _described(self, key: Any) -> str:
        stream_key = key[0] if self.namespaced else key
        return f"state {self.name!r} of key {describe_record(original_key(stream_key))}"

    def shift(self) -> None:
        """Send the older generation to disk; the younger one takes its place."""
        if self._older:
            self._spilled.put(self._number, self._older)
        self._older, self.entries = self.entries, {}

    def estimated_bytes(self, hot: Collection[Any]) -> int:
        """Roughly what the younger generation takes, judged by its first, its last and the `hot` keys."""
        entries = self.entries
        if not entries:
            return 0
        keys = [*islice(entries, _SAMPLE), *islice(reversed(entries), _SAMPLE), *islice(hot, _SAMPLE)]
        sizes = [entry_bytes(key, entries[key]) for key in keys if key in entries]
        return len(entries) * sum(sizes) // len(sizes)

    def clear(self) -> None:
        """Forget everything. Only for tables of which nothing has been spilled (BATCH mode)."""
        self.written.clear()
        self.entries.clear()
