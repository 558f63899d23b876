"""Delete what killed writes and interrupted drops have left in a store."""

from datetime import UTC, datetime, timedelta

from engine.store.manifest import State
from engine.store.plan_versions import abandon, all_writes
from engine.store.store_tables import Rows, StoreTables
from engine.store.version_notes import require_whole
from plans.tables import TABLES

OLD = timedelta(days=7)


def remove_unfinished(delta: StoreTables[Rows], older_than: timedelta = OLD) -> list[str]:
    """The write_ids whose rows were deleted: dropped versions, and writes begun before `older_than` ago.

    A write that is still running is never half-deleted: it is first marked abandoned in the manifest, and if
    it finishes after all, it is told so (StoreError) instead of being published. A write that publishes
    first is left alone. Younger writes are not touched. Raises StoreError where there is no store, or its
    manifest has lost a version, whose rows would be taken for unfinished.
    """
    before = datetime.now(UTC) - older_than
    known = {v.write_id for v in require_whole(delta.store, all_writes(delta))}
    found = {table: delta.write_ids(table) for table in TABLES}
    for write_id in sorted(set().union(*found.values()) - known):
        if _started(write_id) < before:
            abandon(delta, write_id)
    dead = {v.write_id for v in all_writes(delta) if v.state != State.COMPLETE}
    for table, write_ids in found.items():
        delta.delete(table, sorted(write_ids & dead))
    return sorted(dead & set().union(*found.values()))


def _started(write_id: str) -> datetime:
    return datetime.strptime(write_id.rsplit("-", 1)[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
