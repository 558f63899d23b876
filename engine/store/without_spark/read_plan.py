"""Read the tables of one version without Spark."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from engine.store.data_files import damaged
from engine.store.find_damage import find_damage
from engine.store.require_columns import require_columns_to_read
from engine.store.store_errors import store_errors
from engine.store.without_spark.delta_tables import read_rows
from engine.store.without_spark.plan_versions import find_version
from plans.errors import StoreError

PARALLEL_READS = 4


def read_plan(
    store: str, version: int | None = None, tables: Collection[str] | None = None
) -> dict[str, pa.Table]:
    """Table name to the rows of that version (default: the newest), with the columns of plans.tables.TABLES.

    `tables`: only these, where not all are wanted. Raises StoreError: not a store, no such version, a damaged
    one, a table that the version does not have, columns of another version of Penstock.
    """
    found = find_version(store, version)
    missing = sorted(set(tables or ()) - set(found.tables))
    if missing:
        raise StoreError(
            f"version {found.version} of {store} does not have the tables {', '.join(missing)}",
            f"it has {', '.join(found.tables)}",
        )
    names = [name for name in found.tables if tables is None or name in tables]
    with store_errors(store, "reading"):
        damage = find_damage(store, found, names)
    if damage:
        raise damaged(store, found.version, damage)
    require_columns_to_read(store, names)
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="penstock-store") as pool:
        return dict(zip(names, pool.map(lambda t: read_rows(store, t, found.write_id), names), strict=True))
