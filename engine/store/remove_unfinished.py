"""Delete what killed writes and interrupted drops have left in a store."""

from datetime import UTC, datetime, timedelta

from penstock.engine.store.discard import remove_files, writes_in_folders
from penstock.engine.store.manifest import State
from penstock.engine.store.plan_versions import abandon, read_listed
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.engine.store.version_notes import drop_staged, lost, lost_versions, noted_numbers
from penstock.engine.store.write_ids import began_at
from penstock.plans.tables import TABLES

OLD = timedelta(days=7)


def remove_unfinished(delta: StoreTables[Rows], older_than: timedelta = OLD) -> list[str]:
    """The write_ids whose rows were deleted: dropped versions, and writes begun before `older_than` ago.

    A write that is still running is never half-deleted: it is first marked abandoned in the manifest, and if
    it finishes after all, it is told so (StoreError) instead of being published. A write that publishes
    first is left alone. Younger writes are not touched. In a local store, files are found that no log lists
    yet. Raises StoreError where there is no store, or its manifest has lost a version, whose rows would be
    taken for unfinished.
    """
    before = datetime.now(UTC) - older_than
    noted = noted_numbers(delta.store)
    written = read_listed(delta).listed
    if missing := lost_versions(noted, written):
        raise lost(delta.store, missing[-1])
    known = {v.write_id for v in written}
    listed = {table: delta.write_ids(table) for table in TABLES}
    in_logs = set().union(*listed.values())
    with store_errors(delta.store, "reading"):
        found = in_logs | writes_in_folders(delta.store, TABLES)
    for write_id in sorted(found - known):
        if _began_before(write_id, before):
            abandon(delta, write_id)
    writes = read_listed(delta).listed
    dead = {v.write_id for v in writes if v.state != State.COMPLETE}
    for table, write_ids in listed.items():
        delta.delete(table, sorted(write_ids & dead))
    never_read = {v.write_id for v in writes if v.state == State.ABANDONED} & found
    for write_id in sorted(never_read):
        drop_staged(delta.store, write_id)
        remove_files(delta.store, TABLES, write_id)
    return sorted(dead & in_logs | never_read)


def _began_before(write_id: str, time: datetime) -> bool:
    began = began_at(write_id)
    return began is not None and began < time
