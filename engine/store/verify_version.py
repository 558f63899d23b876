"""Every table of a version of a store, compared with what was written."""

from penstock.engine.store.data_files import Damage
from penstock.engine.store.find_damage import find_damage
from penstock.engine.store.manifest import PlanVersion
from penstock.engine.store.plan_versions import find_version
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import Rows, StoreTables


def verify_version(delta: StoreTables[Rows], version: int | None = None) -> tuple[PlanVersion, list[Damage]]:
    """The version (default: the newest) and all damage to its tables.

    Every file of a local store is read. Raises StoreError: not a store, no such version, a damaged manifest.
    """
    with store_errors(delta.store, "reading"):
        found = find_version(delta, version)
        return found, find_damage(delta, found, found.tables)
