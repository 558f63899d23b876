"""A SQLite database for what does not fit into memory; it disappears with its connection."""

import sqlite3

_CACHE_KIBIBYTES = 16 << 10


def open_temporary_database() -> sqlite3.Connection:
    """An empty database in one long transaction, without safe writes: it is not read after a crash."""
    # The empty name is a temporary file that the system deletes, however the process ends.
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
    connection.execute("BEGIN")
    return connection
