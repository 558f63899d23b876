"""The tables of one version as polars frames: without Spark where the store is local, else through Spark."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import polars as pl

from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.manifest import PlanVersion
from penstock.engine.store.plan_versions import find_version
from penstock.engine.store.read_plan import require_intact
from penstock.engine.store.scan_stored_table import BY_NAME, scan_stored_table
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.tables_of import tables_of

__all__ = ["BY_NAME", "StoredPlan", "open_plan"]


class StoredPlan(NamedTuple):
    """A version of a store, and its tables: name to a lazy frame with the columns of plans.tables.TABLES.

    A frame that is collected reads the columns it needs.
    """

    version: PlanVersion
    table: Callable[[str], pl.LazyFrame]

    def has(self, *tables: str) -> bool:
        """Whether all of these belong to the version."""
        return set(tables) <= set(self.version.tables)


def open_plan(store: str, version: int | None = None, topology: str | None = None) -> StoredPlan:
    """That version (default: the newest), with only the rows of `topology` if one is named.

    Raises StoreError: not a store, no such version. A table that is asked for is first checked: StoreError if
    it is damaged.
    """
    delta = tables_of(store)
    found = find_version(delta, version)

    @cache
    def table(name: str) -> pl.LazyFrame:
        require_intact(delta, found, [name])
        if isinstance(delta, DeltaRsTables):
            with store_errors(store, "reading"):
                recorded = found.files_of(name)
                files = delta.listed_files(name, found.write_id) if recorded is None else recorded
            return scan_stored_table(store, name, files or [], topology)
        from penstock.engine.store.scan_spark_rows import scan_spark_rows

        return scan_spark_rows(delta.read(name, found.write_id), name, topology)

    return StoredPlan(found, table)
