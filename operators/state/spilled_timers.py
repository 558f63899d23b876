"""Timers on disk: those that are furthest from firing."""

from collections.abc import Iterable
from io import BytesIO
from typing import Any

from penstock.operators.state.pickle_state import dump_state, load_states
from penstock.operators.state.temporary_database import open_temporary_database

_TIMERS_AT_ONCE = 50_000


class SpilledTimers:
    """Pairs of time (milliseconds) and entry, taken out by time."""

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
        """The time of the first timer; None if there is none."""
        first: int | None = self._connection.execute("SELECT min(time) FROM timers").fetchone()[0]
        return first

    def take_first(self) -> list[tuple[int, Any]]:
        """Take out the first timers, and all others of the same time as the last of them."""
        last = self._connection.execute(
            "SELECT max(time) FROM (SELECT time FROM timers ORDER BY time LIMIT ?)", (_TIMERS_AT_ONCE,)
        ).fetchone()
        rows = self._connection.execute(
            "SELECT time, entry FROM timers WHERE time <= ? ORDER BY time, rowid", last
        ).fetchall()
        self._connection.execute("DELETE FROM timers WHERE time <= ?", last)
        return [(time, _entry(pickled)) for time, pickled in rows]

    def remove(self, time: int, entry: Any) -> None:
        """Delete a timer, if it is here."""
        rows = self._connection.execute(
            "SELECT rowid, entry FROM timers WHERE time = ? AND hash = ?", (time, hash(entry))
        ).fetchall()
        for number, pickled in rows:
            if _entry(pickled) == entry:
                self._connection.execute("DELETE FROM timers WHERE rowid = ?", (number,))

    def close(self) -> None:
        """Delete everything."""
        self._connection.close()


def _entry(pickled: bytes) -> Any:
    return next(load_states(BytesIO(pickled)))
