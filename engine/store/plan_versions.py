"""List the versions of a store, find one, and publish a write as a new one."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.data_files import DataFile
from penstock.engine.store.delta_rs_table import read_shared
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import is_local, local_folder, table_path
from penstock.engine.store.store_errors import first_line
from penstock.engine.store.store_tables import ManifestRead, Rows, StoreTables, retry_conflicts
from penstock.engine.store.version_notes import (
    MANIFEST,
    ManifestRow,
    PlanVersion,
    StoreFormatError,
    VersionState,
    given_up,
    lost,
    lost_versions,
    manifest_row,
    newest_version,
    not_a_store,
    note_version,
    noted_numbers,
    renew_notes,
    repair_hint,
    require_as_noted,
    require_whole,
    stage_note,
    versions_of,
)
from penstock.plans.errors import PenstockError, StoreError
from penstock.plans.tables import TABLES

if TYPE_CHECKING:
    from penstock.engine.store.spark_tables import SparkTables


# Choose the library that reads and writes the tables of a store: delta-rs in this process, or Spark.


def tables_of(store: str) -> "DeltaRsTables | SparkTables":
    """Return the tables through delta-rs if the store is local, else through a Spark session.

    Without a session, one is started.
    """
    if is_local(store):
        return DeltaRsTables(store)
    table_path(store, MANIFEST)  # reports a malformed path before a session starts
    from penstock.engine.spark.session import get_session
    from penstock.engine.store.spark_tables import SparkTables

    return SparkTables(get_session(app_name="penstock"), store)


def log_reader(delta: StoreTables[Rows]) -> StoreTables[Any]:
    """Return delta-rs as the reader of a local store's logs, because a Spark job takes longer."""
    return DeltaRsTables(delta.store) if is_local(delta.store) else delta


# The Parquet files of a write, for its row of the manifest.


PARALLEL_READS = 4
_BYTES_AT_A_TIME = 1 << 20


def recorded_files(delta: StoreTables[Rows], tables: Iterable[str], write_id: str) -> tuple[DataFile, ...]:
    """Return the files of a write in these tables, with checksums if the store is local."""

    logs = log_reader(delta)

    def list_files(table: str) -> list[DataFile]:
        files = logs.listed_files(table, write_id) or []
        if not is_local(delta.store):
            return files
        folder = local_folder(delta.store, table)
        return [file._replace(checksum=checksum(os.path.join(folder, file.path))) for file in files]

    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="penstock-checksum") as pool:
        return tuple(file for files_of_table in pool.map(list_files, tables) for file in files_of_table)


def checksum(path: str) -> str:
    """Return the XXH3-128 of a file in hex digits."""
    summed, buffer = xxh3_128(), bytearray(_BYTES_AT_A_TIME)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            summed.update(view[:count])
    return summed.hexdigest()


def list_versions(delta: StoreTables[Rows]) -> list[PlanVersion]:
    """Return the readable versions, oldest first. Raises StoreError without a store or a whole manifest."""
    noted = noted_numbers(delta.store)
    writes = all_writes(delta)
    require_whole(delta.store, noted, writes)
    return [version for version in writes if version.state == VersionState.COMPLETE]


def find_version(delta: StoreTables[Rows], version: int | None) -> PlanVersion:
    """Return that version, or the newest. Raises StoreError, which names the existing versions.

    Only its row is read in full, and compared with its note.
    """
    noted = noted_numbers(delta.store)
    seen = read_listed(delta)
    if version is None:
        require_whole(delta.store, noted, seen.listed)
    known = complete(seen)
    listed_version = next((v for v in reversed(known) if version in (None, v.version)), None)
    if listed_version is not None:
        return version_of(delta, seen, listed_version)
    if version in lost_versions(noted, seen.listed):
        raise lost(delta.store, version)
    if version is not None and any(
        listed.version == version and listed.state == VersionState.DROPPED for listed in seen.listed
    ):
        raise _dropped(delta.store, version, known)
    numbers = _newest_numbers(known)
    wanted = "any version" if version is None else f"version {version}"
    raise StoreError(
        f"{delta.store} does not have {wanted}; its versions are {numbers}",
        "versions are listed oldest first",
    )


def require_not_dropped(delta: StoreTables[Rows], version: PlanVersion) -> None:
    """Raise StoreError if a version has been dropped since it was found."""
    seen = read_listed(delta)
    known = complete(seen)
    if version.version is not None and version.write_id not in {listed.write_id for listed in known}:
        raise _dropped(delta.store, version.version, known)


def _dropped(store: str, version: int, known: Sequence[ManifestRow]) -> StoreError:
    return StoreError(
        f"version {version} of {store} has been dropped; the remaining versions are {_newest_numbers(known)}",
        "penstock plan of the same input writes it again",
    )


def _newest_numbers(known: Sequence[ManifestRow]) -> str:
    return ", ".join(str(listed.version) for listed in known[-20:]) or "none"


def all_writes(delta: StoreTables[Rows]) -> list[PlanVersion]:
    """Return every row of the manifest, by version, without checking that none is lost.

    The time grows with the number of versions; see read_listed. Raises StoreError if there is no
    store, or its manifest cannot be read.
    """
    return require_as_noted(delta.store, _versions(delta, read_listed(delta), None))


def version_of(delta: StoreTables[Rows], seen: ManifestRead, listed: ManifestRow) -> PlanVersion:
    """Return the whole row of a listed write. Raises StoreError if it differs from its note."""
    return require_as_noted(delta.store, _versions(delta, seen, [listed.write_id]))[-1]


def read_listed(delta: StoreTables[Rows]) -> ManifestRead:
    """Return the manifest's list of writes, without checking that none is lost.

    Raises StoreError without a store or a readable manifest.
    """
    noted = noted_numbers(delta.store)
    manifest = read_shared(
        MANIFEST, table_path(delta.store, MANIFEST), lambda: _read(delta), _version_of_state
    )
    if manifest is None:
        if noted:
            raise _damaged(delta.store, "which lists its versions, has lost its Delta log")
        raise not_a_store(delta.store, has_tables=_has_tables(delta.store))
    return manifest


def complete(seen: ManifestRead) -> list[ManifestRow]:
    """Return the readable versions, oldest first."""
    completed = (listed for listed in seen.listed if listed.state == VersionState.COMPLETE)
    return sorted(completed, key=lambda listed: (listed.version or 0, listed.write_id))


def versions_with(delta: StoreTables[Rows], seen: ManifestRead, table: str) -> list[ManifestRow]:
    """Return the readable versions that may have that table, oldest first.

    All rows of the manifest are read, but not compared with their notes. Raises StoreError if they cannot be
    read.
    """
    with _manifest_errors(delta):
        rows = seen.rows(None)
    without = {row["write_id"] for row in rows if row["tables"] is not None and table not in row["tables"]}
    return [listed for listed in complete(seen) if listed.write_id not in without]


def is_store(delta: StoreTables[Rows]) -> bool:
    """Return whether a plan was ever written here. Raises StoreError if the manifest cannot be opened."""
    try:
        return delta.has(MANIFEST)
    except delta.errors as error:
        raise _unreadable(delta.store, error) from error


def start_manifest(delta: StoreTables[Rows]) -> None:
    """Create the manifest, if there is none, before anything else is written.

    So plans without a manifest must have lost it. They are not touched: a new manifest would hide their
    versions and reuse their numbers. Raises StoreError for such a store.
    """
    require_not_lost(delta)
    delta.create(MANIFEST)


def require_not_lost(delta: StoreTables[Rows]) -> None:
    """Raise StoreError if there are plans, but no manifest."""
    if is_store(delta) or not any(delta.write_ids(table) for table in TABLES):
        return
    if not is_store(delta):  # another first writer may have made it meanwhile
        raise not_a_store(delta.store, has_tables=True)


def is_published(delta: StoreTables[Rows], write_id: str) -> bool:
    """Return whether the manifest has a version of this write. Raises StoreError if it cannot be read."""
    manifest = _read(delta)
    return manifest is not None and any(
        v.write_id == write_id and v.version is not None for v in manifest.listed
    )


def publish(delta: StoreTables[Rows], candidate: PlanVersion) -> int:
    """Make a finished write readable under the next free version number, and return the number.

    The row is inserted only if neither its number nor its write_id entered the manifest after it was
    read, and the number is returned only once the row is seen there. Raises StoreError if `remove_unfinished`
    has abandoned the write.
    """
    delta.create(MANIFEST)

    def insert_under_next_number(seen: ManifestRead) -> None:
        number = newest_version(delta.store, seen.listed) + 1
        numbered = replace(candidate, version=number, published_at=datetime.now(UTC))
        stage_note(delta.store, numbered)
        delta.insert_version(manifest_row(numbered), seen)

    own = _inserted(delta, candidate.write_id, insert_under_next_number, f"publishing in {delta.store}")
    if own.version is None or own.state == VersionState.ABANDONED:
        raise given_up(delta.store, candidate.write_id)
    note_version(delta.store, own)
    return own.version


def abandon(delta: StoreTables[Rows], write_id: str) -> None:
    """Mark a write as abandoned, so that it is never published, unless it has been published meanwhile."""
    tombstone = PlanVersion(None, write_id, VersionState.ABANDONED, datetime.now(UTC), None, {}, (), 0, 0)

    def insert(seen: ManifestRead) -> None:
        delta.insert_version(manifest_row(tombstone), seen)

    delta.create(MANIFEST)
    _inserted(delta, write_id, insert, f"abandoning {write_id}")


def mark_dropped(delta: StoreTables[Rows], version: PlanVersion) -> None:
    """Hide a version from all readers that start from now on."""
    renew_notes(delta.store, [replace(version, state=VersionState.DROPPED)])
    retry_conflicts(
        delta,
        lambda: delta.set_state(version.write_id, str(VersionState.DROPPED)),
        f"dropping version {version.version} of {delta.store}",
    )


def _inserted(
    delta: StoreTables[Rows],
    write_id: str,
    insert: Callable[[ManifestRead], None],
    doing: str,
) -> PlanVersion:
    """Return the row of a write in the manifest; `insert` adds it unless it is already there."""

    def insert_unless_there() -> PlanVersion | None:
        seen = _read(delta)
        if seen is None:
            raise not_a_store(delta.store)
        if not any(listed.write_id == write_id for listed in seen.listed):
            insert(seen)
            return None
        return _versions(delta, seen, [write_id])[-1]

    inserted = None
    while inserted is None:  # ends, because another writer has published a version in every lost round
        inserted = retry_conflicts(delta, insert_unless_there, doing)
    return inserted


def _read(delta: StoreTables[Rows]) -> ManifestRead | None:
    with _manifest_errors(delta):
        return delta.read_manifest()


@contextmanager
def _manifest_errors(delta: StoreTables[Rows]) -> Iterator[None]:
    try:
        yield
    except PenstockError:
        raise
    except delta.errors as error:
        if delta.is_conflict(error):
            raise
        raise _unreadable(delta.store, error) from error


def _version_of_state(seen: ManifestRead) -> int | None:
    version: int | None = None if seen.state is None else seen.state.version()
    return version


def _has_tables(store: str) -> bool:
    return is_local(store) and any(os.path.isdir(local_folder(store, table)) for table in TABLES)


def _versions(
    delta: StoreTables[Rows], seen: ManifestRead, write_ids: Collection[str] | None
) -> list[PlanVersion]:
    """Return the whole rows of these writes, or of all."""
    with _manifest_errors(delta):
        rows = seen.rows(write_ids)
    try:
        return versions_of(delta.store, rows)
    except StoreFormatError:
        raise
    except StoreError as error:
        raise StoreError(error.message, repair_hint(delta.store)) from error


def _unreadable(store: str, error: Exception) -> PenstockError:
    refused = machine_error_in_text(error, f"reading table {MANIFEST} of {store}")
    if refused is None and not is_local(store):
        return StoreError(
            f"{store}: table {MANIFEST} cannot be read: {first_line(error)}",
            "check the path, and that Spark can reach its file system",
        )
    return refused or _damaged(store, f"which lists its versions, cannot be read: {first_line(error)}")


def _damaged(store: str, problem: str) -> StoreError:
    return StoreError(f"{store} is damaged: table {MANIFEST}, {problem}", repair_hint(store))
