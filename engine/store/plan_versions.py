"""The versions of a store: find them in the manifest, note them beside it, restore it from the notes."""

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import uuid4

from xxhash import xxh3_128_hexdigest

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.machine.replace_file import sync_descriptor, sync_folder
from penstock.engine.store.data_files import find_damage
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.delta_table import alone
from penstock.engine.store.store_location import MANIFEST, Location, first_line
from penstock.engine.store.store_tables import (
    DataFile,
    ManifestRead,
    ManifestRow,
    PlanVersion,
    Rows,
    StoreTables,
    VersionState,
    is_write_id,
    retry_conflicts,
)
from penstock.plans.errors import PenstockError, StoreError
from penstock.plans.installation import own_version
from penstock.plans.tables import TABLES

# Find versions.


def list_versions(delta: StoreTables[Rows]) -> list[PlanVersion]:
    """Return the readable versions, oldest first. Raises StoreError without a store or a whole manifest."""
    noted = VersionNotes(delta.store).numbers()
    writes = all_writes(delta)
    _require_whole(delta.store, noted, writes)
    return [version for version in writes if version.state == VersionState.COMPLETE]


def find_version(delta: StoreTables[Rows], version: int | None) -> PlanVersion:
    """Return that version, or the newest. Raises StoreError, which names the existing versions.

    Only its row is read in full, and compared with its note.
    """
    noted = VersionNotes(delta.store).numbers()
    seen = read_listed(delta)
    if version is None:
        _require_whole(delta.store, noted, seen.listed)
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


def newest_version(delta: StoreTables[Rows]) -> PlanVersion | None:
    """Return the newest readable version; None without one, or if the manifest has lost a newer one.

    Raises StoreError if the manifest cannot be read.
    """
    if not is_store(delta):
        return None
    noted = VersionNotes(delta.store).numbers()
    seen = read_listed(delta)
    known = complete(seen)
    return version_of(delta, seen, known[-1]) if known and not _has_lost_newest(noted, seen.listed) else None


def require_not_dropped(delta: StoreTables[Rows], version: PlanVersion) -> None:
    """Raise StoreError if a version has been dropped since it was found."""
    known = complete(read_listed(delta))
    if version.version is not None and version.write_id not in {listed.write_id for listed in known}:
        raise _dropped(delta.store, version.version, known)


def _dropped(store: Location, version: int, known: Sequence[ManifestRow]) -> StoreError:
    return StoreError(
        f"version {version} of {store} has been dropped; the remaining versions are {_newest_numbers(known)}",
        "penstock plan of the same input writes it again",
    )


def _newest_numbers(known: Sequence[ManifestRow]) -> str:
    return ", ".join(str(listed.version) for listed in known[-20:]) or "none"


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


# Read the manifest.


def all_writes(delta: StoreTables[Rows]) -> list[PlanVersion]:
    """Return every row of the manifest, by version, without checking that none is lost.

    The time grows with the number of versions; see read_listed. Raises StoreError if there is no
    store, or its manifest cannot be read.
    """
    return _require_as_noted(delta.store, _read_versions(delta, read_listed(delta), None))


def version_of(delta: StoreTables[Rows], seen: ManifestRead, listed: ManifestRow) -> PlanVersion:
    """Return the whole row of a listed write. Raises StoreError if it differs from its note."""
    return _require_as_noted(delta.store, _read_versions(delta, seen, [listed.write_id]))[-1]


def read_listed(delta: StoreTables[Rows]) -> ManifestRead:
    """Return the manifest's list of writes, without checking that none is lost.

    Raises StoreError without a store or a readable manifest.
    """
    noted = VersionNotes(delta.store).numbers()
    with _manifest_errors(delta):
        manifest = delta.shared_manifest()
    if manifest is None:
        if noted:
            raise _damaged(delta.store, "which lists its versions, has lost its Delta log")
        raise _not_a_store(delta.store, has_tables=_has_tables(delta.store))
    return manifest


def _read_versions(
    delta: StoreTables[Rows], seen: ManifestRead, write_ids: Collection[str] | None
) -> list[PlanVersion]:
    """Return the whole rows of these writes, or of all. Raises StoreError."""
    with _manifest_errors(delta):
        rows = seen.rows(write_ids)
    try:
        return _versions_of(delta.store, rows)
    except StoreFormatError:
        raise
    except StoreError as error:
        raise StoreError(error.message, _repair_hint(delta.store)) from error


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
        raise _not_a_store(delta.store, has_tables=True)


def _has_tables(store: Location) -> bool:
    folder = store.folder
    return folder is not None and any(os.path.isdir(os.path.join(folder, table)) for table in TABLES)


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


def _not_a_store(store: Location, *, has_tables: bool = False) -> StoreError:
    """Return the error for a path without a plan, or with tables of plans whose manifest is lost."""
    if has_tables:
        return StoreError(
            f"{store} is damaged: it holds plans, but table {MANIFEST}, which lists its versions, is lost",
            _RESTORE_BY_HAND,
        )
    return StoreError(f"{store} is not a plan store: it has no table {MANIFEST}", "penstock plan makes one")


def _unreadable(store: Location, error: Exception) -> PenstockError:
    refused = machine_error_in_text(error, f"reading table {MANIFEST} of {store}")
    if refused is None and store.folder is None:
        return StoreError(
            f"{store}: table {MANIFEST} cannot be read: {first_line(error)}",
            "check the path, and that Spark can reach its file system",
        )
    return refused or _damaged(store, f"which lists its versions, cannot be read: {first_line(error)}")


def _damaged(store: Location, problem: str) -> StoreError:
    return StoreError(f"{store} is damaged: table {MANIFEST}, {problem}", _repair_hint(store))


_RESTORE_BY_HAND = "restore that table from a backup, or plan into another store"


def _repair_hint(store: Location) -> str:
    """Return the hint for a damaged manifest."""
    if not VersionNotes(store).versions():
        return _RESTORE_BY_HAND
    return f"penstock verify {store} --repair restores the table; so does penstock plan --out {store}"


# Add a row to the manifest.


def publish(delta: StoreTables[Rows], candidate: PlanVersion) -> int:
    """Make a finished write readable under the next free version number, and return the number.

    The row is inserted only if neither its number nor its write_id entered the manifest after it was
    read, and the number is returned only once the row is seen there. Raises StoreError if `remove_unfinished`
    has abandoned the write.
    """
    delta.create(MANIFEST)
    notes = VersionNotes(delta.store)

    def insert_under_next_number(seen: ManifestRead) -> None:
        number = max([0, *notes.numbers(), *(listed.version or 0 for listed in seen.listed)]) + 1
        numbered = replace(candidate, version=number, published_at=datetime.now(UTC))
        notes.stage(numbered)
        delta.insert_version(manifest_row(numbered), seen)

    own = insert_unless_there(
        delta, candidate.write_id, insert_under_next_number, f"publishing in {delta.store}"
    )
    if own.version is None or own.state == VersionState.ABANDONED:
        raise StoreError(
            f"write {candidate.write_id} to {delta.store} was removed as unfinished while it ran; "
            "nothing was published",
            "plan again; `older_than` of remove_unfinished is the age from which a write counts as dead",
        )
    notes.note(own)
    return own.version


def insert_unless_there(
    delta: StoreTables[Rows],
    write_id: str,
    insert: Callable[[ManifestRead], None],
    doing: str,
) -> PlanVersion:
    """Return the row of a write in the manifest; `insert` adds it unless it is already there."""

    def inserted_now() -> PlanVersion | None:
        seen = _read_to_insert(delta)
        if seen is None:
            raise _not_a_store(delta.store)
        if not any(listed.write_id == write_id for listed in seen.listed):
            insert(seen)
            return None
        return _read_versions(delta, seen, [write_id])[-1]

    inserted = None
    while inserted is None:  # ends, because another writer has published a version in every lost round
        inserted = retry_conflicts(delta, inserted_now, doing)
    return inserted


def _read_to_insert(delta: StoreTables[Rows]) -> ManifestRead | None:
    """Return the current manifest, to which a row may be added; None if there is none. Raises StoreError."""
    with _manifest_errors(delta):
        return delta.read_manifest()


def is_published(delta: StoreTables[Rows], write_id: str) -> bool:
    """Return whether the manifest has a version of this write. Raises StoreError if it cannot be read."""
    manifest = _read_to_insert(delta)
    return manifest is not None and any(
        v.write_id == write_id and v.version is not None for v in manifest.listed
    )


# Turn rows of the manifest into versions, and back.


STORE_FORMAT = 1
"""Raised whenever an older Penstock would misread tables, manifest or notes."""


class StoreFormatError(StoreError):
    """A store has versions of another format than this Penstock's; nothing of it is damaged."""


def _row_checksum(version: PlanVersion) -> str:
    """Return the XXH3-128 of a manifest row in hex digits, without its state, which changes."""
    values = [
        version.version,
        version.write_id,
        round(version.published_at.astimezone(UTC).timestamp() * 1_000_000),
        version.planner_version,
        sorted(version.options.items()),
        version.tables,
        version.topologies,
        version.rejected,
        version.files,
    ]
    return xxh3_128_hexdigest(json.dumps(values).encode())


def manifest_row(version: PlanVersion) -> dict[str, Any]:
    """Return the version as a row of PLAN_VERSIONS; the map is a dict, each file a dict."""
    return {
        "version": version.version,
        "write_id": version.write_id,
        "state": str(version.state),
        "format": STORE_FORMAT,
        "published_at": version.published_at,
        "planner_version": version.planner_version,
        "options": dict(version.options),
        "tables": list(version.tables),
        "topologies": version.topologies,
        "rejected": version.rejected,
        "files": None if version.files is None else [file._asdict() for file in version.files],
        "checksum": _row_checksum(version),
    }


def _versions_of(store: Location, rows: Sequence[Mapping[str, Any]]) -> list[PlanVersion]:
    """Convert rows of the manifest, oldest version first.

    Raises StoreError if a row was altered, and StoreFormatError if one has another format.
    """
    for row in rows:
        if row.get("format") != STORE_FORMAT:
            raise StoreFormatError(
                f"{store}: version {row['version']} has format {row.get('format') or 'unknown'}; "
                f"Penstock {own_version()} reads format {STORE_FORMAT}",
                "use the Penstock that wrote it, or plan again into another store",
            )
    versions = [
        PlanVersion(
            version=r["version"],
            write_id=r["write_id"],
            state=r["state"],
            published_at=r["published_at"],
            planner_version=r["planner_version"],
            options=dict(r["options"] or {}),
            tables=tuple(r["tables"] or ()),
            topologies=r["topologies"] or 0,
            rejected=r["rejected"] or 0,
            files=_files(r.get("files")),
        )
        for r in rows
    ]
    for row, version in zip(rows, versions, strict=True):
        if row.get("checksum") not in (None, _row_checksum(version)):
            raise StoreError(
                f"{store} is damaged: the row of version {version.version} in table {MANIFEST} has changed "
                "since it was written"
            )
    return sorted(versions, key=lambda v: (v.version or 0, v.write_id))


def _files(rows: Iterable[Mapping[str, Any]] | None) -> tuple[DataFile, ...] | None:
    return (
        None if rows is None else tuple(DataFile(*(row[name] for name in DataFile._fields)) for row in rows)
    )


# Note the rows of a local store's manifest in files next to it. A manifest whose log has lost its last
# commits looks like one that never had them; the notes show the loss, and restore a manifest that cannot be
# read.


_NOTES = "_versions"
"""A folder that Delta ignores, because its name starts with `_`. A note's name is the version's number, or,
while it is being published, `.` and its write_id (a staged note)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NANOSECONDS_OF_A_TICK = 100_000_000
"""Time stamps of file systems are coarse: a folder may change twice within one tick and look the same."""


Row = PlanVersion | ManifestRow


class VersionNotes:
    """The notes of a store's versions. A store elsewhere has none: then nothing is written or found."""

    def __init__(self, store: Location) -> None:
        self._store = store
        self._folder = None if store.folder is None else os.path.join(store.folder, MANIFEST, _NOTES)

    def numbers(self) -> Set[int]:
        """Return the versions that have a note, readable or not."""
        if self._folder is None:
            return frozenset()
        try:
            status = os.stat(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()
        if time.time_ns() - status.st_mtime_ns < _NANOSECONDS_OF_A_TICK:
            return _numbers(self._folder)
        return _numbers_at(self._folder, (status.st_ino, status.st_mtime_ns, status.st_ctime_ns))

    def versions(self) -> list[PlanVersion]:
        """Return the versions in intact notes, oldest first."""
        noted = (self._read(name) for name in sorted(self._names()) if name.isdecimal())
        return [version for version in noted if version is not None]

    def version(self, number: int | None) -> PlanVersion | None:
        """Return the note of a version; None if it has none, or a damaged one."""
        return None if number is None else self._read(_name(number))

    def time_of(self, number: int) -> float | None:
        """Return when the note of a version was last written, in seconds since 1970; None if there is none.

        That is when the version was published or dropped.
        """
        if self._folder is None:
            return None
        try:
            return os.stat(os.path.join(self._folder, _name(number))).st_mtime
        except FileNotFoundError:
            return None

    def staged(self) -> list[PlanVersion]:
        """Return versions whose writer ended or was killed shortly before or after publishing them."""
        names = [name for name in sorted(self._names()) if name.startswith(".") and is_write_id(name[1:])]
        staged = ((name, self._read(name)) for name in names)
        return [v for name, v in staged if v is not None and name == f".{v.write_id}"]

    def stage(self, version: PlanVersion) -> None:
        """Write the note of a version before it is published, so that a full disk prevents publishing."""
        self._write(f".{version.write_id}", version)

    def note(self, version: PlanVersion) -> None:
        """Turn the staged note of a version into its note, once it is published."""
        name = f".{version.write_id}"
        staged = self._read(name)
        if self._folder is not None and staged is not None and _same(staged, version):
            # Another writer that has read the manifest meanwhile may note the version, and remove this note.
            with suppress(FileNotFoundError):
                _name_if_free(
                    os.path.join(self._folder, name), os.path.join(self._folder, _name(version.version))
                )
                sync_folder(self._folder)
                return
        self.renew([version])

    def drop_staged(self, write_id: str) -> None:
        """Remove the note of a version that will not be published."""
        if self._folder is not None and is_write_id(write_id) and not os.path.islink(self._folder):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, f".{write_id}"))

    def renew(self, versions: Iterable[PlanVersion]) -> None:
        """Write the notes of these rows of the manifest that are missing or damaged.

        A version that is noted as dropped stays so: the rows may have been read before the drop.
        """
        numbers = self.numbers()
        for version in versions:
            if version.version is None:
                continue
            known = self.version(version.version)
            if known is None or not _is_as_noted(version, known):
                # If there was no note, one written meanwhile may record that the version is dropped.
                replacing = version.version in numbers or version.state == VersionState.DROPPED
                self._write(_name(version.version), version, replacing=replacing)
                self.drop_staged(version.write_id)

    def _names(self) -> list[str]:
        try:
            return [] if self._folder is None else os.listdir(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _read(self, name: str) -> PlanVersion | None:
        if self._folder is None:
            return None
        try:
            with open(os.path.join(self._folder, name), "rb") as file:
                checksum, _, text = file.read().partition(b"\n")
        except (FileNotFoundError, IsADirectoryError):
            return None
        if checksum.decode(errors="replace") != xxh3_128_hexdigest(text):
            return None
        row = json.loads(text)
        published_at = _EPOCH + timedelta(microseconds=row["published_at"])
        return _versions_of(self._store, [{**row, "published_at": published_at}])[0]

    def _write(self, name: str, version: PlanVersion, *, replacing: bool = True) -> None:
        if self._folder is None:
            return
        os.makedirs(self._folder, exist_ok=True)
        row = manifest_row(version)
        row["published_at"] = (version.published_at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        text = json.dumps(row).encode()
        unfinished, path = (os.path.join(self._folder, file) for file in (f"#{uuid4().hex}", name))
        try:
            with open(unfinished, "wb") as file:
                file.write(xxh3_128_hexdigest(text).encode() + b"\n" + text)
                file.flush()
                sync_descriptor(file.fileno(), file.name)
            if replacing:
                os.replace(unfinished, path)
            else:
                _name_if_free(unfinished, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
        sync_folder(self._folder)
        sync_folder(os.path.dirname(self._folder))


def _name(number: int | None) -> str:
    return f"{number:020}"


@lru_cache(maxsize=16)
def _numbers_at(folder: str, identity: tuple[int, ...]) -> frozenset[int]:
    """Return the numbers noted in a folder; `identity` differs once a note is added or removed."""
    return _numbers(folder)


def _numbers(folder: str) -> frozenset[int]:
    try:
        return frozenset(int(name) for name in os.listdir(folder) if name.isdecimal())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _name_if_free(path: str, name: str) -> None:
    """Rename a file; if the name is taken, remove the file instead.

    If the file system has no hard links, the new file is written under its name; a partial one, which a kill
    leaves, is rewritten by `renew`.
    """
    try:
        os.link(path, name)
    except FileExistsError:
        pass
    except FileNotFoundError:
        raise
    except OSError:
        with suppress(FileExistsError), open(path, "rb") as noted, open(name, "xb") as file:
            file.write(noted.read())
            file.flush()
            sync_descriptor(file.fileno(), file.name)
    with suppress(FileNotFoundError):
        os.unlink(path)


def _is_as_noted(row: PlanVersion, noted: PlanVersion) -> bool:
    """Compare a row with its note; a version that is being dropped is noted as dropped first."""
    dropping = noted.state == VersionState.DROPPED and row.state == VersionState.COMPLETE
    return _same(row, replace(noted, state=row.state) if dropping else noted)


def _same(version: PlanVersion, other: PlanVersion) -> bool:
    return version.state == other.state and _row_checksum(version) == _row_checksum(other)


# Compare the manifest with the notes.


def lost_versions(noted: Set[int], versions: Iterable[Row]) -> list[int]:
    """Return numbers that were published but are missing in `versions`, all rows of the manifest.

    `noted`: the noted numbers from before the manifest was read, because a version that another writer
    publishes is in the manifest first.
    """
    return sorted(noted - {v.version for v in versions})


def _has_lost_newest(noted: Set[int], versions: Iterable[Row]) -> bool:
    """Return whether the newest published version is among `lost_versions`."""
    return max(noted, default=0) > max((v.version or 0 for v in versions), default=0)


def _require_whole(store: Location, noted: Set[int], versions: Iterable[Row]) -> None:
    """Raise StoreError if the manifest, all of whose rows these are, has lost the newest version."""
    if _has_lost_newest(noted, versions):
        raise lost(store, max(noted))


def lost(store: Location, number: int) -> StoreError:
    """Return the error for a published version that the manifest no longer has."""
    return StoreError(
        f"{store} is damaged: version {number} was published, but table {MANIFEST} has lost it",
        f"penstock verify {store} --repair restores it, and so does penstock plan --out {store}; --version "
        "selects an older one",
    )


def _require_as_noted(store: Location, versions: list[PlanVersion]) -> list[PlanVersion]:
    """Return these rows of the manifest; raise StoreError if one differs from its note."""
    notes = VersionNotes(store)
    for version in versions:
        noted = notes.version(version.version)
        if noted is not None and not _is_as_noted(version, noted):
            raise StoreError(
                f"{store} is damaged: the row of version {noted.version} in table {MANIFEST} has changed "
                "since it was written",
                _repair_hint(store),
            )
    return versions


# Restore the manifest of a local store from its notes.


_ASIDE = "_damaged"
"""Prefix of folders in the manifest's that Delta ignores, because their names start with `_`."""


def repair_if_damaged(delta: StoreTables[Rows]) -> list[str]:
    """Call repair_manifest if a check shows damage; the check takes no longer for many versions.

    Damage means that the manifest lacks noted versions, or differs from the note of the newest. Versions that
    only the manifest has, because their writers were killed while they published, are noted, and are not a
    reason to check all others.
    """
    if delta.store.folder is None:
        return []
    notes, logs = VersionNotes(delta.store), delta.logs
    noted = notes.numbers()
    try:
        if not noted and not is_store(logs):
            return []
        seen = read_listed(logs)
        numbered = {listed.version: listed for listed in seen.listed if listed.version is not None}
        unknown = [version_of(logs, seen, numbered[number]) for number in sorted(numbered.keys() - noted)]
        newest = max(numbered.values(), default=None)
        is_whole = noted <= numbered.keys() and (
            newest is None
            or newest.version not in noted
            or notes.version(version_of(logs, seen, newest).version) is not None
        )
    except StoreFormatError:
        raise
    except StoreError:
        is_whole = False
    if not is_whole:
        return repair_manifest(delta.store)
    notes.renew(unknown)
    return []


def repair_manifest(store: str | Location) -> list[str]:
    """Restore the manifest to everything that was published; return a sentence for users about each repair.

    A manifest that cannot be read is set aside and made again; lost rows are put back. Interrupted at any
    point, it can be called again. Raises StoreError if the manifest cannot be read and nothing is noted, and
    MachineError if the machine refuses.
    """
    delta = DeltaRsTables(store)
    if delta.store.folder is None:
        return []
    notes = VersionNotes(delta.store)
    done = _make_again_if_unreadable(notes, delta)
    noted = notes.numbers()
    if not noted:
        return done
    known = all_writes(delta)
    gone = lost_versions(noted, known)
    restored = [version for version in notes.versions() if version.version in gone]
    if restored:
        with alone(delta.store.join()):
            _insert(delta, restored)
        done.append(f"{delta.store}: table {MANIFEST} has {_named(restored)} again")
        known = all_writes(delta)
    notes.renew(known)
    return done


def _make_again_if_unreadable(notes: VersionNotes, delta: DeltaRsTables) -> list[str]:
    """Restore only a manifest that cannot be read, the first half of repair_manifest."""
    if not notes.versions():
        return []
    with alone(delta.store.join()):
        try:
            all_writes(delta)
        except StoreFormatError:
            raise
        except StoreError:
            _set_aside(delta.store.join(MANIFEST))
        else:
            return []
        delta.create(MANIFEST)
        _resolve_staged(notes, delta)
        restored = notes.versions()
        _insert(delta, restored)
    gone = sorted(notes.numbers() - {v.version for v in restored})
    unknown = f"; {', '.join(map(str, gone))} cannot be restored" if gone else ""
    return [f"{delta.store}: table {MANIFEST} was damaged, and is restored with {_named(restored)}{unknown}"]


def _set_aside(folder: str) -> None:
    """Move the manifest's Delta files into a new folder; the notes stay."""
    free = next(n for n in range(1, 10_000) if not os.path.lexists(os.path.join(folder, f"{_ASIDE}-{n}")))
    damaged_folder = os.path.join(folder, f"{_ASIDE}-{free}")
    os.mkdir(damaged_folder)
    for name in sorted(os.listdir(folder)):  # the log first: `_delta_log` sorts before names of files
        if name == "_delta_log" or not name.startswith("_"):
            os.rename(os.path.join(folder, name), os.path.join(damaged_folder, name))


def _resolve_staged(notes: VersionNotes, delta: DeltaRsTables) -> None:
    """Note staged versions that are complete as published, and drop the others.

    Only the manifest knew whether they were published: their writers were killed while they published, or
    their notes would exist.
    """
    taken: set[int | None] = {*notes.numbers()}
    for staged in notes.staged():
        if staged.version not in taken and not find_damage(delta, staged, staged.tables):
            notes.note(staged)
            taken.add(staged.version)
        else:
            notes.drop_staged(staged.write_id)


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
