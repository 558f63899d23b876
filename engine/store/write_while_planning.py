"""Write a plan to a local store while it is made, so that the whole plan is never in memory."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from penstock.engine.store.append_in_turn import AppendInTurn
from penstock.engine.store.append_side_by_side import PARALLEL_WRITES
from penstock.engine.store.delta_rs_table import shared_tables
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.discard import discard, set_aside_unreadable
from penstock.engine.store.plan_versions import is_store, start_manifest
from penstock.engine.store.require_target import require_target
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.unchanged_topologies import nothing_changed
from penstock.engine.store.version_number import VersionNumber
from penstock.engine.store.write_plan import new_write_id, publish_write, require_plan
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY

_COMPARED = ("topologies", "rejected")
_TABLES_AT_A_TIME = 2


class WriteWhilePlanning:
    """A write to a local store: of a fleet part by part, or of a giant table by table.

    A planner hands tables over (see plans.columnar.Finished). Nothing of it can be read before `publish`;
    every other end of it is `discard`.
    """

    @shared_tables()
    def __init__(self, store: str) -> None:
        """Raises StoreError and MachineError where there can be no store."""
        require_target(store)
        self._store = store
        self._delta = DeltaRsTables(store)
        self._write_id = new_write_id()
        self._append = AppendInTurn(self._delta, self._write_id)
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
