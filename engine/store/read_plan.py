"""Read the tables of one version."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.engine.store.data_files import damaged
from penstock.engine.store.find_damage import find_damage
from penstock.engine.store.is_local import is_local
from penstock.engine.store.manifest import PlanVersion
from penstock.engine.store.plan_versions import find_version
from penstock.engine.store.require_columns import require_columns_to_read
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.plans.errors import StoreError

PARALLEL_READS = 4


def read_plan(
    delta: StoreTables[Rows], version: int | None = None, tables: Collection[str] | None = None
) -> dict[str, Rows]:
    """Table name to the rows of that version (default: the newest), with the columns of plans.tables.TABLES.

    `delta`: the store, as DeltaRsTables (Arrow tables) or tables_of_spark (DataFrames). `tables`: only these,
    where not all are wanted. Raises StoreError: not a store, no such version, a damaged one, a table that the
    version does not have, columns of another version of Penstock.
    """
    found = find_version(delta, version)
    missing = sorted(set(tables or ()) - set(found.tables))
    if missing:
        raise StoreError(
            f"version {found.version} of {delta.store} does not have the tables {', '.join(missing)}",
            f"it has {', '.join(found.tables)}",
        )
    names = [name for name in found.tables if tables is None or name in tables]
    require_intact(delta, found, names)
    if is_local(delta.store):
        require_columns_to_read(delta.store, names)
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="penstock-store") as pool:
        return dict(zip(names, pool.map(lambda t: delta.read(t, found.write_id), names), strict=True))


def require_intact(delta: StoreTables[Rows], version: PlanVersion, tables: Sequence[str]) -> None:
    """StoreError unless these tables of the version are as they were written."""
    with store_errors(delta.store, "reading"):
        damage = find_damage(delta, version, tables)
    if damage:
        raise damaged(delta.store, version.version, damage)
