"""Write a plan to a local store while it is made, so that the whole plan is never in memory."""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.engine.store.append_side_by_side import PARALLEL_WRITES
from penstock.engine.store.delta_rs_table import shared_tables
from penstock.engine.store.delta_rs_tables import DeltaRsTables, as_stored
from penstock.engine.store.discard import discard, set_aside_unreadable
from penstock.engine.store.is_local import local_folder
from penstock.engine.store.open_file import OpenFile
from penstock.engine.store.plan_versions import is_store, start_manifest
from penstock.engine.store.require_rows import require_rows
from penstock.engine.store.require_target import require_target
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.stored_tables import WRITE_ID, in_files
from penstock.engine.store.version_number import VersionNumber
from penstock.engine.store.write_file import make_log_durable
from penstock.engine.store.write_plan import new_write_id, nothing_changed, publish_write, require_plan
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY

_COMPARED = ("topologies", "rejected")
_TABLES_AT_A_TIME = 2


class WriteWhilePlanning:
    """A write to a local store: of a fleet part by part, or of a giant table by table.

    A planner hands tables over (see plans.columnar.plan_columnar.Finished). Nothing of it can be read before
    `publish`; every other end of it is `discard`.
    """

    @shared_tables()
    def __init__(self, store: str) -> None:
        """Raises StoreError and MachineError where there can be no store."""
        require_target(store)
        self._store = store
        self._delta = DeltaRsTables(store)
        self._write_id = new_write_id()
        self._append = StagedAppend(self._delta, self._write_id)
        self._ids: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._rejected = 0
        with store_errors(store, "writing"):
            start_manifest(self._delta)
            set_aside_unreadable(store, TABLES)

    def add_part(self, tables: Mapping[str, pa.Table]) -> None:
        """Take a part of a fleet, all its tables. Raises StoreError, MachineError and SchemaError."""
        with store_errors(self._store, "writing"):
            self._append.add_all(tables, _TABLES_AT_A_TIME)
        for table, rows in tables.items():
            self._count(table, rows)

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        """As Finished: take a table of a giant. Raises StoreError, MachineError and SchemaError."""
        with store_errors(self._store, "writing"):
            self._append.begin(table)
            for rows in parts:
                self._append.add(table, rows)
                self._count(table, rows)
        pa.default_memory_pool().release_unused()

    def clear(self) -> None:
        """As Finished."""
        self._append.clear()
        self._ids, self._rejected = [], 0

    def planned(self) -> tuple[int, int, int]:
        """How many topologies came planned, with how many ids, and how many rejected."""
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, np.int64)
        return len(ids), len(np.unique(ids)), self._rejected

    @shared_tables()
    def publish(self, *, planner_version: str, options: Mapping[str, str]) -> VersionNumber:
        """The number of the version, as engine.store.write_plan: the newest one's if it has the same plan."""
        with store_errors(self._store, "writing"):
            rows = self._append.commit(PARALLEL_WRITES)
            require_plan(rows)
            if is_store(self._delta):
                tables = {table: TABLES[table].empty_table() for table in rows}
                tables |= {table: self._delta.read(table, self._write_id) for table in _COMPARED}
                same = nothing_changed(self._delta, tables, planner_version=planner_version, options=options)
                if same is not None:
                    self.discard()
                    return same
            return publish_write(
                self._delta, rows, self._write_id, planner_version=planner_version, options=options
            )

    def discard(self) -> None:
        """Delete what was written, unless it was published."""
        self._append.clear()
        discard(self._delta, TABLES, self._write_id)

    def _count(self, table: str, rows: pa.Table) -> None:
        if table == "topologies":
            self._ids.append(rows[TOPOLOGY].to_numpy())
        elif table == "rejected":
            self._rejected += len(rows)


@dataclass(slots=True)
class _Growing:
    """A table of the store before the write, and what the write has added to it so far."""

    before: int
    rows: int = 0
    file: OpenFile | None = None


@dataclass(frozen=True)
class StagedAppend:
    """Appends rows to tables of a local store: no reader sees any of them before `commit`.

    Until then they are in files of the write `write_id` that no table's log lists. `clear` and
    `discard` remove them. Tables come in any order, and again: all rows of a table go into one file.
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
        for stored in as_stored(rows, table):
            if grown.file is None:
                folder, inside = local_folder(self.delta.store, table), f"{WRITE_ID}={self.write_id}"
                os.makedirs(os.path.join(folder, inside), exist_ok=True)
                grown.file = OpenFile(folder, inside, in_files(table))
            grown.file.write(stored)
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
