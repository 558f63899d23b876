"""Entries of state on disk.

An entry is either in memory or here. Rows are found by the key's hash; keys of equal hash share a row, in
which their pickles follow one another.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any

from penstock.operators.state.pickle_state import dump_state, load_states
from penstock.operators.state.temporary_database import open_temporary_database

_KEYS_AT_ONCE = 10_000


class SpilledEntries:
    """The spilled entries of the tables of one subtask's operator, by table number."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._tables: set[int] = set()

    def has(self, table: int) -> bool:
        """Whether anything of this table was ever put here."""
        return table in self._tables

    def put(self, table: int, entries: Mapping[Any, Any]) -> None:
        """Add entries, none of whose keys may be here. Raises TypeError: state that cannot be pickled."""
        connection = self._opened(table)
        # In order of the hash: neighbouring rows share pages.
        ordered = sorted(entries.items(), key=_key_hash)
        connection.executemany(
            f"INSERT INTO state{table} VALUES (?, ?) "
            "ON CONFLICT (hash) DO UPDATE SET pickles = CAST(pickles || excluded.pickles AS BLOB)",
            ((hash(item[0]), dump_state(item)) for item in ordered),
        )

    def take(self, table: int, keys: Collection[Any]) -> dict[Any, Any]:
        """Remove and return the entries of those of the distinct `keys` that are here."""
        connection = self._opened(table)
        found: dict[Any, Any] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), _KEYS_AT_ONCE):
            some = set(wanted[start : start + _KEYS_AT_ONCE])
            hashes = json.dumps(sorted(map(hash, some)))
            matching = f"FROM state{table} WHERE hash IN (SELECT value FROM json_each(?))"
            rows = connection.execute(f"SELECT pickles {matching}", (hashes,)).fetchall()
            if rows:
                connection.execute(f"DELETE {matching}", (hashes,))
            strangers: dict[Any, Any] = {}
            for (pickles,) in rows:
                for key, value in load_states(BytesIO(pickles)):
                    (found if key in some else strangers)[key] = value
            if strangers:
                self.put(table, strangers)
        return found

    def close(self) -> None:
        """Delete everything."""
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
