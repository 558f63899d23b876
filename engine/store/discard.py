"""Taking out of a store what cannot be used: a write that failed, tables that can no longer be read."""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.delta_rs_table import open_log_tail, open_table
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.plan_versions import is_published, log_reader
from penstock.engine.store.store_tables import WRITE_ID, Rows, StoreTables
from penstock.engine.store.version_notes import drop_staged
from penstock.engine.store.version_number import is_write_id
from penstock.plans.errors import PenstockError

_TIMES_TO_REMOVE = 5


def discard(delta: StoreTables[Rows], tables: Iterable[str], write_id: str) -> None:
    """Delete what a write has left, unless it was published: an error may follow the commit that does so.

    Files first, which makes room on a full disk for what the logs are to say. A local store is tidied up
    without Spark, which may be what failed.
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
    """Remove the files of a write that nobody reads from a local store, committed or not.

    Tasks that have been cancelled go on for a moment: one may add a file to a folder while it is removed, but
    makes none in a folder that is gone. Nothing is removed for what is no id of a write, nor through a link.
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
    """The writes that have files in a local store, whether a log lists them or not; none of another one."""
    writes_there: set[str] = set()
    for table in tables if is_local(store) else ():
        with suppress(FileNotFoundError, NotADirectoryError):
            names = os.listdir(local_folder(store, table))
            writes = (name.removeprefix(f"{WRITE_ID}=") for name in names if name.startswith(f"{WRITE_ID}="))
            writes_there.update(filter(is_write_id, writes))
    return writes_there


def set_aside_unreadable(store: str, tables: Iterable[str]) -> list[str]:
    """Rename tables of a local store that no longer open, so that new ones can be made; the folders they are
    now in.

    Only versions that cannot be read any more are in them. What the machine refuses to open is left alone.
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
    # A folder of that name, say, would keep the table from ever having that version.
    return any(entry.name.endswith(".json") and not entry.is_file() for entry in entries)


@contextmanager
def alone(folder: str) -> Iterator[None]:
    """One writer at a time; the kernel lets go of the lock of one that is killed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
