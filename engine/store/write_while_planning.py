"""Write the tables of one plan while it is made, so that the whole plan is never in memory."""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.discard import discard, set_aside_unreadable
from penstock.engine.store.plan_versions import is_store, start_manifest
from penstock.engine.store.require_target import require_target
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.unchanged_topologies import nothing_changed
from penstock.engine.store.version_number import VersionNumber
from penstock.engine.store.write_plan import new_write_id, publish_write, require_plan
from penstock.plans.tables import TABLES

_KEPT = ("topologies", "rejected")


class WriteWhilePlanning:
    """A write to a local store, to which a planner hands tables over (see plans.columnar.Finished).

    Nothing of it can be read before `publish`; every other end of it is `discard`.
    """

    def __init__(self, store: str) -> None:
        """Raises StoreError and MachineError where there can be no store."""
        require_target(store)
        self._store = store
        self._delta = DeltaRsTables(store)
        self._write_id = new_write_id()
        self._rows: dict[str, int] = {}
        self._kept: dict[str, pa.Table] = {}
        with store_errors(store, "writing"):
            start_manifest(self._delta)
            set_aside_unreadable(store, TABLES)

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        """As Finished. Raises StoreError, MachineError and SchemaError."""
        if table in _KEPT:
            self._kept[table] = pa.concat_tables(parts)
            parts = [self._kept[table]]
        self._rows[table] = 0
        with store_errors(self._store, "writing"):
            self._rows[table] = self._delta.append_parts(table, parts, self._write_id)
        pa.default_memory_pool().release_unused()

    def clear(self) -> None:
        """As Finished."""
        with store_errors(self._store, "writing"):
            for table, rows in self._rows.items():
                if rows:
                    self._delta.delete(table, [self._write_id])
        self._rows = dict.fromkeys(self._rows, 0)
        self._kept = {table: rows.slice(0, 0) for table, rows in self._kept.items()}

    def planned(self) -> tuple[pa.Table, pa.Table]:
        """The rows of `topologies` and of `rejected`."""
        return self._kept["topologies"], self._kept["rejected"]

    def publish(self, *, planner_version: str, options: Mapping[str, str]) -> VersionNumber:
        """The number of the version, as engine.store.write_plan: the newest one's if it has the same plan."""
        require_plan(self._rows)
        same = self._unchanged(planner_version, options)
        if same is not None:
            self.discard()
            return same
        with store_errors(self._store, "writing"):
            return publish_write(
                self._delta, self._rows, self._write_id, planner_version=planner_version, options=options
            )

    def discard(self) -> None:
        """Delete what was written, unless it was published."""
        discard(self._delta, self._rows, self._write_id)

    def _unchanged(self, planner_version: str, options: Mapping[str, str]) -> VersionNumber | None:
        if not is_store(self._delta):
            return None
        tables = {table: self._kept.get(table, TABLES[table].empty_table()) for table in self._rows}
        return nothing_changed(self._delta, tables, planner_version=planner_version, options=options)
