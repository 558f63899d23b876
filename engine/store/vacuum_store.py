"""Free the disk space of versions that were dropped, and of writes that were abandoned."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.delta_rs_table import open_log_tail, open_table
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.plan_versions import (
    abandon,
    all_writes,
    find_version,
    is_published,
    log_reader,
    mark_dropped,
    read_listed,
)
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import WRITE_ID, Rows, StoreTables
from penstock.engine.store.version_notes import (
    MANIFEST,
    PlanVersion,
    VersionState,
    began_at,
    drop_staged,
    is_write_id,
    lost,
    lost_versions,
    noted_numbers,
    time_of_note,
)
from penstock.plans.errors import PenstockError
from penstock.plans.tables import TABLES

# Remove unusable data from a store: failed writes, and tables that can no longer be read.


_TIMES_TO_REMOVE = 5


def discard(delta: StoreTables[Rows], tables: Iterable[str], write_id: str) -> None:
    """Delete the data of a write, unless it was published before the error.

    Files go first, which makes room on a full disk for the entries in the logs. A local store is cleaned up
    without Spark, because Spark may have caused the failure.
    """
    logs = log_reader(delta)
    with suppress(PenstockError, *logs.errors):
        if not is_published(logs, write_id):
            drop_staged(delta.store, write_id)
            remove_files(delta.store, tables, write_id)
            for table in tables:
                with suppress(PenstockError, *logs.errors):
                    logs.delete(table, [write_id])


def remove_files(store: str, tables: Iterable[str], write_id: str) -> None:
    """Remove the files of a write without readers from a local store, committed or not.

    Cancelled tasks run on for a moment: one may add a file to a folder while it is removed, but
    cannot create one in a folder that is gone. Ids that are not write_ids, and links, are skipped.
    """
    if is_local(store) and is_write_id(write_id):
        for table in tables:
            if os.path.islink(local_folder(store, table)):
                continue
            folder = os.path.join(local_folder(store, table), f"{WRITE_ID}={write_id}")
            for _ in range(_TIMES_TO_REMOVE):
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.lexists(folder) or os.path.islink(folder):
                    break


def writes_in_folders(store: str, tables: Iterable[str]) -> set[str]:
    """Return the writes that have files in a local store, listed in a log or not; none for other stores."""
    write_ids: set[str] = set()
    for table in tables if is_local(store) else ():
        with suppress(FileNotFoundError, NotADirectoryError):
            names = os.listdir(local_folder(store, table))
            writes = (name.removeprefix(f"{WRITE_ID}=") for name in names if name.startswith(f"{WRITE_ID}="))
            write_ids.update(filter(is_write_id, writes))
    return write_ids


def set_aside_unreadable(store: str, tables: Iterable[str]) -> list[str]:
    """Rename tables of a local store that no longer open, and return their new folders.

    New tables can then be created in their place. The renamed ones contain only versions that can no longer
    be read. A table that the machine refuses to open stays.
    """
    if not is_local(store) or not os.path.isdir(local_folder(store)):
        return []
    unreadable = [table for table in tables if _is_unreadable(store, table)]
    if not unreadable:
        return []
    moved = []
    with alone(local_folder(store)):
        for table in unreadable:
            folder = local_folder(store, table)
            if _is_unreadable(store, table):
                free = next(n for n in range(1, 10_000) if not os.path.lexists(f"{folder}.damaged-{n}"))
                os.rename(folder, f"{folder}.damaged-{free}")
                moved.append(f"{folder}.damaged-{free}")
    return moved


def _is_unreadable(store: str, table: str) -> bool:
    folder = local_folder(store, table)
    if open_log_tail(folder) is not None:
        return False
    try:
        with os.scandir(os.path.join(folder, "_delta_log")) as scan:
            entries = list(scan)
        open_table(folder)
    except NotADirectoryError:
        return True
    except FileNotFoundError:
        return False
    except (DeltaError, OSError) as error:  # delta-rs raises both
        return machine_error_in_text(error, "") is None
    # For example, a folder with a commit's name would block that version of the table forever.
    return any(entry.name.endswith(".json") and not entry.is_file() for entry in entries)


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """Lock `folder` for one writer at a time; the kernel releases the lock of a killed writer."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
    with_files = writes_in_folders(delta.store, TABLES)
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


def _since(store: str, write: PlanVersion) -> float:
    """Return the latest time at which the write can have been dropped or abandoned.

    A drop rewrites the note and the manifest, so their times count. A write that never became a version was
    never read: it is as old as its abandonment.
    """
    if write.version is None:
        return write.published_at.timestamp()
    noted = time_of_note(store, write.version)
    return (
        os.stat(os.path.join(local_folder(store, MANIFEST), "_delta_log")).st_mtime
        if noted is None
        else noted
    )


def _size(store: str, write_id: str) -> tuple[int, int]:
    files = size = 0
    for table in TABLES:
        folder = os.path.join(local_folder(store, table), f"{WRITE_ID}={write_id}")
        for place, _, names in os.walk(folder):
            for name in names:
                files += 1
                size += os.lstat(os.path.join(place, name)).st_size
    return files, size


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
    noted = noted_numbers(delta.store)
    written = read_listed(delta).listed
    if missing := lost_versions(noted, written):
        raise lost(delta.store, missing[-1])
    known = {v.write_id for v in written}
    listed = {table: delta.write_ids(table) for table in TABLES}
    in_logs = set().union(*listed.values())
    with store_errors(delta.store, "reading"):
        write_ids_there = in_logs | writes_in_folders(delta.store, TABLES)
    for write_id in sorted(write_ids_there - known):
        if _began_before(write_id, before):
            abandon(delta, write_id)
    writes = read_listed(delta).listed
    dead = {v.write_id for v in writes if v.state != VersionState.COMPLETE}
    for table, write_ids in listed.items():
        delta.delete(table, sorted(write_ids & dead))
    never_read = {v.write_id for v in writes if v.state == VersionState.ABANDONED} & write_ids_there
    for write_id in sorted(never_read):
        drop_staged(delta.store, write_id)
        remove_files(delta.store, TABLES, write_id)
    return sorted(dead & in_logs | never_read)


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
