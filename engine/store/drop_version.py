"""Drop a version on purpose."""

from penstock.engine.store.plan_versions import find_version, mark_dropped
from penstock.engine.store.store_tables import Rows, StoreTables


def drop_version(delta: StoreTables[Rows], version: int) -> None:
    """No reader sees the version any more, then its rows are deleted; its number is not used again.

    Readers that have begun go on reading: the files stay until Delta's VACUUM. `remove_unfinished` finishes a
    drop that was interrupted. Raises StoreError where there is no such version.
    """
    found = find_version(delta, version)
    mark_dropped(delta, found)
    for table in found.tables:
        delta.delete(table, [found.write_id])
