"""Free the disk space of versions that were dropped, and of writes that were abandoned."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from penstock.engine.store.plan_versions import (
    VersionNotes,
    all_writes,
    find_version,
    insert_unless_there,
    lost,
    lost_versions,
    manifest_row,
    read_listed,
)
from penstock.engine.store.store_location import MANIFEST, Location, store_errors
from penstock.engine.store.store_tables import (
    WRITE_ID,
    ManifestRead,
    PlanVersion,
    Rows,
    StoreTables,
    VersionState,
    began_at,
    is_write_id,
    retry_conflicts,
)
from penstock.engine.store.write_plan import remove_files
from penstock.plans.tables import TABLES


class VacuumedWrite(NamedTuple):
    """A write without a readable version, with its former version, if any, and the size of its files.

    `waits`: it was dropped so recently that a reader may still use it; its files stay.
    """

    version: int | None
    write_id: str
    files: int
    bytes: int
    waits: bool


def vacuum_store(
    delta: StoreTables[Rows], retain_seconds: float, *, remove: bool = True
) -> Iterator[VacuumedWrite]:
    """Remove the files of writes dropped or abandoned at least `retain_seconds` ago, one write at a time.

    Readers that open the store after a drop do not find the version, so only readers that started before use
    its files; they have `retain_seconds` to finish. Writes that are running, or whose end is not recorded,
    are left alone (`penstock recover` abandons writes of processes that have ended). A kill leaves some
    files, which the next call removes. Without `remove`, writes are only listed. The store must be local.
    """
    with_files = writes_in_folders(delta.store)
    for write in sorted(all_writes(delta), key=lambda version: version.write_id):
        gone = write.state in (VersionState.DROPPED, VersionState.ABANDONED)
        if not gone or write.write_id not in with_files or not is_write_id(write.write_id):
            continue
        files, size = _size(delta.store, write.write_id)
        waits = time.time() - _since(delta.store, write) < retain_seconds
        if remove and not waits:
            for table in TABLES:  # a drop may have been interrupted
                if write.write_id in delta.write_ids(table):
                    delta.delete(table, [write.write_id])
            remove_files(delta.store, TABLES, write.write_id)
        yield VacuumedWrite(write.version, write.write_id, files, size, waits)


def _since(store: Location, write: PlanVersion) -> float:
    """Return the latest time at which the write can have been dropped or abandoned.

    A drop rewrites the note and the manifest, so their times count. A write that never became a version was
    never read: it is as old as its abandonment.
    """
    if write.version is None:
        return write.published_at.timestamp()
    noted = VersionNotes(store).time_of(write.version)
    return os.stat(store.join(MANIFEST, "_delta_log")).st_mtime if noted is None else noted


def _size(store: Location, write_id: str) -> tuple[int, int]:
    files = size = 0
    for table in TABLES:
        for place, _, names in os.walk(store.join(table, f"{WRITE_ID}={write_id}")):
            for name in names:
                files += 1
                size += os.lstat(os.path.join(place, name)).st_size
    return files, size


def writes_in_folders(store: Location) -> set[str]:
    """Return the writes that have files in a local store, listed in a log or not; none for other stores."""
    write_ids: set[str] = set()
    for table in () if store.folder is None else TABLES:
        with suppress(FileNotFoundError, NotADirectoryError):
            names = os.listdir(store.join(table))
            writes = (name.removeprefix(f"{WRITE_ID}=") for name in names if name.startswith(f"{WRITE_ID}="))
            write_ids.update(filter(is_write_id, writes))
    return write_ids


# Delete data of killed writes and interrupted drops.


OLD = timedelta(days=7)


def remove_unfinished(delta: StoreTables[Rows], older_than: timedelta = OLD) -> list[str]:
    """Delete rows of dropped versions, and of writes older than `older_than`; return their write_ids.

    A write that is still running is never half-deleted: it is first marked as abandoned in the manifest, and
    if it finishes after all, it gets a StoreError instead of being published. A write that publishes first is
    left alone. Younger writes are not touched. In a local store, files that no log lists yet are found, too.
    Raises StoreError if there is no store, or its manifest has lost a version, whose rows would seem
    unfinished.
    """
    before = datetime.now(UTC) - older_than
    notes = VersionNotes(delta.store)
    noted = notes.numbers()
    written = read_listed(delta).listed
    if missing := lost_versions(noted, written):
        raise lost(delta.store, missing[-1])
    known = {v.write_id for v in written}
    listed = {table: delta.write_ids(table) for table in TABLES}
    in_logs = set().union(*listed.values())
    with store_errors(delta.store, "reading"):
        write_ids_there = in_logs | writes_in_folders(delta.store)
    for write_id in sorted(write_ids_there - known):
        if _began_before(write_id, before):
            _abandon(delta, write_id)
    writes = read_listed(delta).listed
    dead = {v.write_id for v in writes if v.state != VersionState.COMPLETE}
    for table, write_ids in listed.items():
        delta.delete(table, sorted(write_ids & dead))
    never_read = {v.write_id for v in writes if v.state == VersionState.ABANDONED} & write_ids_there
    for write_id in sorted(never_read):
        notes.drop_staged(write_id)
        remove_files(delta.store, TABLES, write_id)
    return sorted(dead & in_logs | never_read)


def _abandon(delta: StoreTables[Rows], write_id: str) -> None:
    """Mark a write as abandoned, so that it is never published, unless it has been published meanwhile."""
    tombstone = PlanVersion(None, write_id, VersionState.ABANDONED, datetime.now(UTC), None, {}, (), 0, 0)

    def insert(seen: ManifestRead) -> None:
        delta.insert_version(manifest_row(tombstone), seen)

    delta.create(MANIFEST)
    insert_unless_there(delta, write_id, insert, f"abandoning {write_id}")


def _began_before(write_id: str, time: datetime) -> bool:
    began = began_at(write_id)
    return began is not None and began < time


# Drop a version.


def drop_version(delta: StoreTables[Rows], version: int) -> None:
    """Hide a version from new readers, then delete its rows; its number is not used again.

    Readers that have started go on reading: the files stay until `vacuum_store`. `remove_unfinished`
    completes an interrupted drop. Raises StoreError if there is no such version.
    """
    plan_version = find_version(delta, version)
    mark_dropped(delta, plan_version)
    for table in plan_version.tables:
        delta.delete(table, [plan_version.write_id])


def mark_dropped(delta: StoreTables[Rows], version: PlanVersion) -> None:
    """Hide a version from all readers that start from now on."""
    VersionNotes(delta.store).renew([replace(version, state=VersionState.DROPPED)])
    retry_conflicts(
        delta,
        lambda: delta.set_state(version.write_id, str(VersionState.DROPPED)),
        f"dropping version {version.version} of {delta.store}",
    )
