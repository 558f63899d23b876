"""Open a version of a store as a plan's tables, through Spark only if the store is not local."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.engine.store.data_files import damaged, find_damage
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.delta_table import require_columns_to_read
from penstock.engine.store.plan_tables import PlanTables, StoredVersion, scan_spark_rows, scan_stored_table
from penstock.engine.store.plan_versions import find_version, require_not_dropped
from penstock.engine.store.store_location import Location, locate, store_errors
from penstock.engine.store.store_tables import PlanVersion, Rows, StoreTables
from penstock.plans.errors import StoreError

if TYPE_CHECKING:
    from penstock.engine.store.spark_tables import SparkTables


def tables_of(store: str | Location) -> "DeltaRsTables | SparkTables":
    """Return the tables through delta-rs if the store is local, else through a Spark session.

    Without a session, one is started. Raises StoreError for a path that Delta cannot have.
    """
    at = locate(store)
    if at.folder is not None:
        return DeltaRsTables(at)
    from penstock.engine.spark.session import get_session
    from penstock.engine.store.spark_tables import SparkTables

    return SparkTables(get_session(app_name="penstock"), at)


def open_plan(store: str, version: int | None = None, topology: str | None = None) -> PlanTables:
    """Open a version, by default the newest, with only the rows of `topology` if it is given.

    Raises StoreError: not a store, no such version. Each requested table is first checked: StoreError if
    it is damaged.
    """
    return open_plan_of(tables_of(store), version, topology)


def open_plan_of(delta: StoreTables[Any], version: int | None, topology: str | None = None) -> PlanTables:
    """See open_plan."""
    plan_version = find_version(delta, version)

    @cache
    def scan(name: str, chosen: str | None) -> pl.LazyFrame:
        require_intact(delta, plan_version, [name])
        if isinstance(delta, DeltaRsTables):
            with store_errors(delta.store, "reading"):
                recorded = plan_version.files_of(name)
                files = delta.listed_files(name, plan_version.write_id) if recorded is None else recorded
            return scan_stored_table(delta.store.join(name), name, files or [], chosen)
        return scan_spark_rows(delta.read(name, plan_version.write_id), name, chosen)

    return PlanTables(
        delta.store.name,
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


# Read the tables of one version.


_PARALLEL_READS = 4


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
    if delta.store.folder is not None:
        require_columns_to_read(delta.store, names)
    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="penstock-store") as pool:
        return dict(zip(names, pool.map(lambda t: delta.read(t, plan_version.write_id), names), strict=True))


def require_intact(delta: StoreTables[Rows], version: PlanVersion, tables: Sequence[str]) -> None:
    """Raise StoreError if these tables of the version are damaged."""
    with store_errors(delta.store, "reading"):
        damage = find_damage(delta, version, tables)
    if damage:
        require_not_dropped(delta, version)
        raise damaged(delta.store, version.version, damage)
