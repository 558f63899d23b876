"""Open a version of a store as a plan's tables, through Spark only if the store is not local."""

import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import polars as pl

from penstock.engine.store.damage import find_damage
from penstock.engine.store.data_files import damaged
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import AT_VERSION, is_local, local_folder
from penstock.engine.store.plan_tables import PlanTables, StoredVersion
from penstock.engine.store.plan_versions import find_version, require_not_dropped, tables_of
from penstock.engine.store.require_target import require_columns_to_read
from penstock.engine.store.scan_stored_table import scan_stored_table
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.engine.store.version_notes import MANIFEST, PlanVersion
from penstock.plans.errors import StoreError


def open_plan(store: str, version: int | None = None, topology: str | None = None) -> PlanTables:
    """Open a version, by default the newest, with only the rows of `topology` if it is given.

    Raises StoreError: not a store, no such version. Each requested table is first checked: StoreError if
    it is damaged.
    """
    return open_plan_of(tables_of(store), version, topology)


def open_plan_of(delta: StoreTables[Any], version: int | None, topology: str | None = None) -> PlanTables:
    """See open_plan."""
    store, plan_version = delta.store, find_version(delta, version)

    @cache
    def scan(name: str, chosen: str | None) -> pl.LazyFrame:
        require_intact(delta, plan_version, [name])
        if isinstance(delta, DeltaRsTables):
            with store_errors(store, "reading"):
                recorded = plan_version.files_of(name)
                files = delta.listed_files(name, plan_version.write_id) if recorded is None else recorded
            return scan_stored_table(store, name, files or [], chosen)
        from penstock.engine.store.spark_rows import scan_spark_rows

        return scan_spark_rows(delta.read(name, plan_version.write_id), name, chosen)

    return PlanTables(
        store,
        plan_version.tables,
        scan,
        plan_version.options,
        plan_version.planner_version,
        plan_version.topologies,
        plan_version.rejected,
        version=plan_version.version,
        published_at=plan_version.published_at,
        stored=StoredVersion(delta, plan_version),
        topology=topology,
    )


# Parse STORE or STORE@VERSION.


def local_store_and_version(path: str) -> tuple[str, int | None] | None:
    """Return the local store and version (or None) of a path, or None for other paths."""
    if _is_store(path):
        return path, None
    match = AT_VERSION.fullmatch(path)
    if match is None or os.path.exists(path) or not _is_store(match["store"]):
        return None
    return match["store"], int(match["version"])


def _is_store(path: str) -> bool:
    return is_local(path) and os.path.isdir(os.path.join(local_folder(path), MANIFEST))


# Read the tables of one version.


PARALLEL_READS = 4


def read_plan(
    delta: StoreTables[Rows], version: int | None = None, tables: Collection[str] | None = None
) -> dict[str, Rows]:
    """Read tables of a version, by default the newest, with the columns of plans.tables.TABLES.

    `delta`: the store, as DeltaRsTables (Arrow tables) or tables_of_spark (DataFrames). `tables`: only these.
    Raises StoreError: not a store, no such version, a damaged one, a table that the version does not have,
    columns of another version of Penstock.
    """
    plan_version = find_version(delta, version)
    missing = sorted(set(tables or ()) - set(plan_version.tables))
    if missing:
        raise StoreError(
            f"version {plan_version.version} of {delta.store} does not have the tables {', '.join(missing)}",
            f"it has {', '.join(plan_version.tables)}",
        )
    names = [name for name in plan_version.tables if tables is None or name in tables]
    require_intact(delta, plan_version, names)
    if is_local(delta.store):
        require_columns_to_read(delta.store, names)
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="penstock-store") as pool:
        return dict(zip(names, pool.map(lambda t: delta.read(t, plan_version.write_id), names), strict=True))


def require_intact(delta: StoreTables[Rows], version: PlanVersion, tables: Sequence[str]) -> None:
    """Raise StoreError if these tables of the version are damaged."""
    with store_errors(delta.store, "reading"):
        damage = find_damage(delta, version, tables)
    if damage:
        require_not_dropped(delta, version)
        raise damaged(delta.store, version.version, damage)
