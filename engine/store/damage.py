"""Find damage in versions, and restore the manifest of a local store from its notes."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.data_files import Damage, DataFile, compare_files, miscounted
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.plan_versions import (
    all_writes,
    checksum,
    is_store,
    log_reader,
    read_listed,
    version_of,
)
from penstock.engine.store.store_tables import Rows, StoreTables, retry_conflicts
from penstock.engine.store.vacuum_store import alone
from penstock.engine.store.version_notes import (
    MANIFEST,
    PlanVersion,
    StoreFormatError,
    drop_staged,
    lost_versions,
    manifest_row,
    note_version,
    noted_numbers,
    noted_version,
    noted_versions,
    renew_notes,
    staged_versions,
)
from penstock.plans.errors import StoreError

# Find damaged tables of a version.


PARALLEL_CHECKS = 4


def find_damage(delta: StoreTables[Rows], version: PlanVersion, tables: Sequence[str]) -> list[Damage]:
    """Find damage in rows, files and, if local, bytes of these tables of a version.

    Other file systems have checksums of their own. If the version was written before the manifest recorded
    files, only damage visible without these records is found. Raises OSError if the machine refuses to read.
    """
    logs = log_reader(delta)
    with ThreadPoolExecutor(PARALLEL_CHECKS, thread_name_prefix="penstock-check") as pool:
        damage_by_table = pool.map(lambda table: _damage_of_table(logs, version, table), tables)
        return [damage for table_damage in damage_by_table for damage in table_damage]


def _damage_of_table(delta: StoreTables[Rows], version: PlanVersion, table: str) -> list[Damage]:
    store = delta.store
    local = is_local(store)
    if local:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.listdir(local_folder(store, table))  # delta-rs reports an unreadable folder as missing
    try:
        listed = delta.listed_files(table, version.write_id)
    except (DeltaError, OSError) as error:
        if machine_error_in_text(error, ""):
            raise
        return [Damage(table, None, f"its Delta log cannot be read: {str(error).splitlines()[0]}")]
    if listed is None:
        return [Damage(table, None, "the table is missing")]
    recorded = version.files_of(table)
    if recorded is None:
        wrong = miscounted(table, version.rows_of(table), listed)
    else:
        wrong = compare_files(table, recorded, listed)
    files = listed if recorded is None else recorded
    return wrong if wrong or not local else [d for file in files for d in _damage_of_file(store, file)]


def _damage_of_file(store: str, file: DataFile) -> Iterator[Damage]:
    path = os.path.join(local_folder(store, file.table), file.path)
    try:
        size = os.stat(path).st_size
        if size != file.bytes:
            yield Damage(file.table, file.path, f"must have {file.bytes} bytes, got {size}")
        elif file.checksum is None:
            # Decode the whole file here: if polars cannot decode it, it may print a Rust panic.
            with pq.ParquetFile(path) as parquet:
                rows = sum(len(batch) for batch in parquet.iter_batches())
            if file.rows is not None and rows != file.rows:
                yield Damage(file.table, file.path, f"must have {file.rows} rows, got {rows}")
        elif checksum(path) != file.checksum:
            yield Damage(file.table, file.path, "its bytes have changed since it was written")
    except FileNotFoundError:
        yield Damage(file.table, file.path, "the file is missing")
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        yield Damage(file.table, file.path, f"it cannot be decoded: {error}")


_ASIDE = "_damaged"
"""Prefix of folders in the manifest's that Delta ignores, because their names start with `_`."""


def repair_manifest(store: str) -> list[str]:
    """Restore the manifest to everything that was published; return a sentence for users about each repair.

    A manifest that cannot be read is set aside and made again; lost rows are put back. Interrupted at any
    point, it can be called again. Raises StoreError if the manifest cannot be read and nothing is noted, and
    MachineError if the machine refuses.
    """
    if not is_local(store):
        return []
    done = [*make_again_if_unreadable(store)]
    noted = noted_numbers(store)
    if not noted:
        return done
    delta = DeltaRsTables(store)
    known = all_writes(delta)
    lost = [v for v in noted_versions(store) if v.version in lost_versions(noted, known)]
    if lost:
        with alone(local_folder(store)):
            _insert(delta, lost)
        done.append(f"{store}: table {MANIFEST} has {_named(lost)} again")
        known = all_writes(delta)
    renew_notes(store, known)
    return done


def repair_if_damaged(store: str) -> list[str]:
    """Call repair_manifest if a check shows damage; the check takes no longer for many versions.

    Damage means that the manifest lacks noted versions, or differs from the note of the newest. Versions that
    only the manifest has, because their writers were killed while they published, are noted, and are not a
    reason to check all others.
    """
    if not is_local(store):
        return []
    noted = noted_numbers(store)
    delta = DeltaRsTables(store)
    try:
        if not noted and not is_store(delta):
            return []
        seen = read_listed(delta)
        numbered = {listed.version: listed for listed in seen.listed if listed.version is not None}
        unknown = [version_of(delta, seen, numbered[number]) for number in sorted(numbered.keys() - noted)]
        newest = max(numbered.values(), default=None)
        is_whole = noted <= numbered.keys() and (
            newest is None
            or newest.version not in noted
            or noted_version(store, version_of(delta, seen, newest).version) is not None
        )
    except StoreFormatError:
        raise
    except StoreError:
        is_whole = False
    if not is_whole:
        return repair_manifest(store)
    renew_notes(store, unknown)
    return []


def make_again_if_unreadable(store: str) -> list[str]:
    """Restore only a manifest that cannot be read, the first half of repair_manifest."""
    if not is_local(store) or not noted_versions(store):
        return []
    with alone(local_folder(store)):
        delta = DeltaRsTables(store)
        try:
            all_writes(delta)
        except StoreFormatError:
            raise
        except StoreError:
            _set_aside(local_folder(store, MANIFEST))
        else:
            return []
        delta.create(MANIFEST)
        _resolve_staged(delta)
        restored = noted_versions(store)
        _insert(delta, restored)
    gone = sorted(noted_numbers(store) - {v.version for v in restored})
    unknown = f"; {', '.join(map(str, gone))} cannot be restored" if gone else ""
    return [f"{store}: table {MANIFEST} was damaged, and is restored with {_named(restored)}{unknown}"]


def _set_aside(folder: str) -> None:
    """Move the manifest's Delta files into a new folder; the notes stay."""
    free = next(n for n in range(1, 10_000) if not os.path.lexists(os.path.join(folder, f"{_ASIDE}-{n}")))
    damaged_folder = os.path.join(folder, f"{_ASIDE}-{free}")
    os.mkdir(damaged_folder)
    for name in sorted(os.listdir(folder)):  # the log first: `_delta_log` sorts before names of files
        if name == "_delta_log" or not name.startswith("_"):
            os.rename(os.path.join(folder, name), os.path.join(damaged_folder, name))


def _resolve_staged(delta: DeltaRsTables) -> None:
    """Note staged versions that are complete as published, and drop the others.

    Only the manifest knew whether they were published: their writers were killed while they published, or
    their notes would exist.
    """
    taken: set[int | None] = {*noted_numbers(delta.store)}
    for staged in staged_versions(delta.store):
        if staged.version not in taken and not find_damage(delta, staged, staged.tables):
            note_version(delta.store, staged)
            taken.add(staged.version)
        else:
            drop_staged(delta.store, staged.write_id)


def _insert(delta: DeltaRsTables, versions: list[PlanVersion]) -> None:
    for version in versions:

        def insert(version: PlanVersion = version) -> None:
            seen = delta.read_manifest()
            if seen is not None and version.version not in {row.version for row in seen.listed}:
                delta.insert_version(manifest_row(version), seen)

        retry_conflicts(delta, insert, f"restoring version {version.version} of {delta.store}")


def _named(versions: list[PlanVersion]) -> str:
    numbers = ", ".join(str(v.version) for v in versions)
    return f"version{'s' if len(versions) > 1 else ''} {numbers}"
