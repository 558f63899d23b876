"""Rows of all tables of a write, as they come: a file and a transaction for each table, whatever the turn."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.engine.store.delta_rs_tables import DeltaRsTables, as_stored
from penstock.engine.store.is_local import local_folder
from penstock.engine.store.open_file import OpenFile
from penstock.engine.store.require_rows import require_rows
from penstock.engine.store.stored_tables import WRITE_ID, in_files
from penstock.engine.store.write_file import make_log_durable
from penstock.plans.tables import TABLES


@dataclass(slots=True)
class _Growing:
    """A table of the store before the write, and what the write has added to it so far."""

    before: int
    rows: int = 0
    file: OpenFile | None = None


@dataclass(frozen=True)
class AppendInTurn:
    """A write to a local store under `write_id`, of which nothing is in a table before `commit`.

    What a write has left that is not committed is removed by `discard`.
    """

    delta: DeltaRsTables
    write_id: str
    _tables: dict[str, _Growing] = field(default_factory=dict)

    def add_all(self, tables: Mapping[str, pa.Table], threads: int) -> None:
        """`add` for all tables, several at a time; the first error of any, after those begun have ended."""
        with ThreadPoolExecutor(threads, thread_name_prefix="penstock-store") as pool:
            writes = [pool.submit(self.add, table, rows) for table, rows in tables.items()]
            try:
                for done in writes:
                    done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def begin(self, table: str) -> _Growing:
        """The table, which is one of the write's from now on, whether rows come or not."""
        if table not in self._tables:
            self._tables[table] = _Growing(self.delta.before_write(table, self.write_id)[0])
        return self._tables[table]

    def add(self, table: str, rows: pa.Table) -> None:
        """Write `rows` to the end of the table's file. Raises SchemaError and OSError."""
        require_rows(rows, table)
        grown = self.begin(table)
        for some in as_stored(rows, table):
            if grown.file is None:
                folder, inside = local_folder(self.delta.store, table), f"{WRITE_ID}={self.write_id}"
                os.makedirs(os.path.join(folder, inside), exist_ok=True)
                grown.file = OpenFile(folder, inside, in_files(table))
            grown.file.write(some)
        grown.rows += len(rows)

    def commit(self, threads: int) -> dict[str, int]:
        """Make what came durable, and put it into the tables; how many rows each has got."""
        with ThreadPoolExecutor(threads, thread_name_prefix="penstock-store") as pool:
            for done in [pool.submit(self._commit, table) for table in self._tables]:
                done.result()
        return {table: self._tables[table].rows for table in TABLES if table in self._tables}

    def clear(self) -> None:
        """Remove what was not committed; `discard` removes the rest, if that was not published."""
        for grown in self._tables.values():
            if (file := grown.file) is not None:
                file.abandon()
                grown.file, grown.rows = None, 0

    def _commit(self, table: str) -> None:
        grown = self._tables[table]
        since = grown.before
        if grown.file is not None:
            path = grown.file.close()
            grown.file = None  # whether it is of a version now, `discard` knows
            self.delta.commit_files(table, {path: grown.rows}, self.write_id)
        make_log_durable(local_folder(self.delta.store, table), since)
