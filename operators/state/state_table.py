"""The values of one state by key, in memory in two generations, and the rest on disk.

All access is to `entries`, a plain dictionary. Keys are loaded into it before they are used, so that the
operators can ignore the rest. When memory is short, the generations shift: entries that have not been loaded
since the last shift go to disk. That comes close to "least recently used" and costs nothing per access.
"""

import json
import pickle
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import islice
from types import BuiltinFunctionType, FunctionType
from typing import IO, Any

from penstock.operators.chain.errors import describe_record
from penstock.operators.common.entry_size import entry_bytes
from penstock.operators.common.serialized_keys import original_key
from penstock.operators.state.stored_state import StoredTable
from penstock.operators.state.value_check import Check

# State as bytes that only this process reads again
#
# So classes and functions that no other process could import (such as a script's own, sent here by value)
# need not be picklable: they stay in memory, and their number represents them.


_live_objects: list[Any] = []
_numbers: dict[int, int] = {}


def dump_state(value: Any) -> bytes:
    """Pickle `value`. Raises TypeError if a part of it cannot be pickled."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        buffer = BytesIO()
        try:
            _InProcessPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
        except Exception as error:
            raise TypeError(
                f"state {value!r:.200} does not fit into memory and cannot be pickled: {error}"
            ) from error
        return buffer.getvalue()


def load_states(file: IO[bytes]) -> Iterator[Any]:
    """Yield the values whose pickles follow one another in `file`."""
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


class _InProcessPickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType, BuiltinFunctionType)) and obj is not _live_object:
            return _live_object, (_number_of(obj),)
        return NotImplemented


def _number_of(obj: Any) -> int:
    number = _numbers.get(id(obj))
    if number is None:
        number = _numbers[id(obj)] = len(_live_objects)
        _live_objects.append(obj)
    return number


def _live_object(number: int) -> Any:
    return _live_objects[number]


# A SQLite database for entries that do not fit into memory; it disappears with its connection


_CACHE_KIBIBYTES = 16 << 10


def open_temporary_database() -> sqlite3.Connection:
    """Return an empty database in one long transaction, without safe writes: it is not read after a crash."""
    # the empty name means a temporary file that the system deletes, however the process ends
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
    connection.execute("BEGIN")
    return connection


# Entries of state on disk
#
# An entry is either in memory or here. Rows are found by the key's hash; keys of equal hash share a row, in
# which their pickles follow one another.


_KEYS_AT_ONCE = 10_000


class SpilledEntries:
    """The spilled entries of the tables of one subtask's operator, by table number."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._tables: set[int] = set()

    def has(self, table: int) -> bool:
        """Whether an entry of this table was ever spilled."""
        return table in self._tables

    def put(self, table: int, entries: Mapping[Any, Any]) -> None:
        """Add entries, whose keys must not be here yet. Raises TypeError for state that cannot be pickled."""
        connection = self._opened(table)
        # in order of the hash: neighbouring rows share pages
        ordered = sorted(entries.items(), key=_key_hash)
        connection.executemany(
            f"INSERT INTO state{table} VALUES (?, ?) "
            "ON CONFLICT (hash) DO UPDATE SET pickles = CAST(pickles || excluded.pickles AS BLOB)",
            ((hash(item[0]), dump_state(item)) for item in ordered),
        )

    def take(self, table: int, keys: Collection[Any]) -> dict[Any, Any]:
        """Remove and return the entries of the distinct `keys` that are here."""
        connection = self._opened(table)
        entries: dict[Any, Any] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            portion = set(wanted[start : start + _KEYS_AT_ONCE])
            hashes = json.dumps(sorted(map(hash, portion)))
            matching = f"FROM state{table} WHERE hash IN (SELECT value FROM json_each(?))"
            rows = connection.execute(f"SELECT pickles {matching}", (hashes,)).fetchall()
            if rows:
                connection.execute(f"DELETE {matching}", (hashes,))
            other_entries: dict[Any, Any] = {}
            for (pickles,) in rows:
                for key, value in load_states(BytesIO(pickles)):
                    (entries if key in portion else other_entries)[key] = value
            if other_entries:
                self.put(table, other_entries)
        return entries

    def all(self, table: int) -> Iterator[tuple[Any, Any]]:
        """Yield all entries of a table, which stay."""
        for (pickles,) in self._opened(table).execute(f"SELECT pickles FROM state{table}"):
            yield from load_states(BytesIO(pickles))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._tables.clear()

    def _opened(self, table: int) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_temporary_database()
        if table not in self._tables:
            self._connection.execute(f"CREATE TABLE state{table} (hash INTEGER PRIMARY KEY, pickles BLOB)")
            self._tables.add(table)
        return self._connection


def _key_hash(item: tuple[Any, Any]) -> int:
    return hash(item[0])


_SAMPLE = 16


# The table: entries in memory, before entries on disk


class StateTable:
    """Values of one state by key (or by key and namespace)."""

    __slots__ = (
        "_number",
        "_older",
        "_spilled",
        "check",
        "entries",
        "name",
        "namespaced",
        "stored",
        "written",
    )

    def __init__(
        self,
        name: str,
        number: int,
        spilled: SpilledEntries,
        *,
        namespaced: bool = False,
        stored: StoredTable | None = None,
    ) -> None:
        self.name, self.namespaced = name, namespaced
        self.stored = stored  #: entries of earlier batches
        self.entries: dict[
            Any, Any
        ] = {}  #: replaced between two calls of `process`: hold no reference for longer
        self._older: dict[Any, Any] = {}
        self._number, self._spilled = number, spilled
        self.check: Check | None = None  #: raises if an entry is not of the declared type
        self.written: set[Any] = set()  #: keys whose entries `commit` checks

    def load(self, keys: Collection[Any]) -> None:
        """Load the values of these distinct keys into `entries`."""
        entries, older = self.entries, self._older
        missing = [key for key in keys if key not in entries]
        if not missing:
            return
        if older:
            remaining = []
            for key in missing:
                if key in older:
                    entries[key] = older.pop(key)
                else:
                    remaining.append(key)
            missing = remaining
        if self._spilled.has(self._number) and missing:
            entries.update(self._spilled.take(self._number, missing))
        if self.stored is not None:
            self.load_stored({key[0] for key in missing} if self.namespaced else missing)

    def load_stored(self, keys: Iterable[Any]) -> None:
        """Load the entries of earlier batches of these stream keys, in all namespaces."""
        if self.stored is not None:
            self.entries.update(self.stored.find(keys, namespaced=self.namespaced))

    def all_entries(self) -> Iterator[tuple[Any, Any]]:
        """Yield all entries in memory and on disk; no others may be loaded before the end."""
        yield from self.entries.items()
        yield from self._older.items()
        if self._spilled.has(self._number):
            yield from self._spilled.all(self._number)

    def commit(self) -> None:
        """Check the entries that were written since the last commit and still exist.

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
        """Spill the older generation to disk; the younger one becomes the older."""
        if self._older:
            self._spilled.put(self._number, self._older)
        self._older, self.entries = self.entries, {}

    def estimated_bytes(self, hot: Collection[Any]) -> int:
        """Estimate the bytes of the younger generation from its first, its last and the `hot` keys."""
        entries = self.entries
        if not entries:
            return 0
        keys = [*islice(entries, _SAMPLE), *islice(reversed(entries), _SAMPLE), *islice(hot, _SAMPLE)]
        sizes = [entry_bytes(key, entries[key]) for key in keys if key in entries]
        return len(entries) * sum(sizes) // len(sizes)

    def clear(self) -> None:
        """Delete all values. Only for tables without spilled entries (BATCH mode)."""
        self.written.clear()
        self.entries.clear()
