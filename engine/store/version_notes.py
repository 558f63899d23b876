"""Keep copies of the manifest's rows (notes) in files next to it, for local stores.

A manifest whose log has lost its last commits looks like one that never had them; the notes show the loss,
and a manifest that can no longer be read is restored from them (see repair_manifest).
"""

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, Self
from uuid import uuid4

import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from penstock.engine.machine.replace_file import sync_descriptor, sync_folder
from penstock.engine.store.data_files import DataFile
from penstock.engine.store.is_local import is_local, local_folder
from penstock.plans.errors import StoreError
from penstock.plans.installation import own_version
from penstock.plans.tables.column_types import INT, LONG, STR, STRINGS, TIMESTAMP, list_of, map_of, table

# The number of a version, as a write returns it.


class VersionNumber(int):
    """The number of a version of a store; an int.

    Attributes:
        unchanged: The store held the plan already; nothing was written.
    """

    unchanged: bool

    def __new__(cls, number: int, unchanged: bool = False) -> Self:
        """Return `number`, which stays an int in every other way."""
        version_number = super().__new__(cls, number)
        version_number.unchanged = unchanged
        return version_number

    def __str__(self) -> str:
        return str(int(self))

    def __repr__(self) -> str:
        return f"{int(self)} (unchanged)" if self.unchanged else str(int(self))


# Ids of writes become parts of paths, so they are checked: a foreign store may contain anything.


_WRITE_ID = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{12}")


def is_write_id(text: str) -> bool:
    """Return whether it has the form of `write_plan.new_write_id`."""
    return _WRITE_ID.fullmatch(text) is not None


def began_at(write_id: str) -> datetime | None:
    """Return the start time of a write; None if this is not the id of a write."""
    if not is_write_id(write_id):
        return None
    try:
        return datetime.strptime(write_id.partition("-")[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None


# The manifest of a store, table `plan_versions`: one row for each write that was published or given up.


MANIFEST = "plan_versions"

_FILE = pa.schema([("table", STR), ("path", STR), ("rows", LONG), ("bytes", LONG), ("checksum", STR)])

PLAN_VERSIONS = table(
    ("version", INT, "1, 2, …; null if never published", True),
    ("write_id", STR, "the rows of this version carry it"),
    ("state", STR, "complete, dropped or abandoned"),
    ("format", INT, "format of the store when it was written, 1", True),
    ("published_at", TIMESTAMP, "when the row was written"),
    ("planner_version", STR, "version of Penstock", True),
    ("options", map_of(STR, STR), "plan options", True),
    ("tables", STRINGS, "tables that belong to the version", True),
    ("topologies", LONG, "rows of table topologies", True),
    ("rejected", LONG, "rows of table rejected", True),
    (
        "files",
        list_of(_FILE),
        "Parquet files of the version; null if written before they were recorded",
        True,
    ),
    ("checksum", STR, "of this row, see row_checksum", True),
)
"""The columns of the manifest. A manifest written by an older Penstock may lack the last ones."""

STORE_FORMAT = 1
"""Raised whenever an older Penstock would misread tables, manifest or notes."""


class StoreFormatError(StoreError):
    """A store has versions of another format than this Penstock's; nothing of it is damaged."""


class VersionState(StrEnum):
    """States of a write."""

    COMPLETE = "complete"  #: readable
    DROPPED = "dropped"  #: was readable; its row stays, so that no number is used twice
    ABANDONED = "abandoned"  #: given up by `remove_unfinished`; can never be published


class ManifestRow(NamedTuple):
    """The part of a manifest's row that is read for every write, before a version is chosen."""

    version: int | None
    write_id: str
    state: str


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """One row of the manifest; `version` is None only if the state is abandoned."""

    version: int | None
    write_id: str
    state: str
    published_at: datetime
    planner_version: str | None
    options: Mapping[str, str]
    tables: tuple[str, ...]
    topologies: int
    rejected: int
    files: tuple[DataFile, ...] | None = None
    """None if written by a version of Penstock that did not record them."""

    def files_of(self, table: str) -> list[DataFile] | None:
        """Return the files of one table; None if they are not recorded."""
        return None if self.files is None else [file for file in self.files if file.table == table]

    def rows_of(self, table: str) -> int | None:
        """Return the number of rows of a table; None if it is not recorded."""
        files = self.files_of(table)
        if files is None:
            return {"topologies": self.topologies, "rejected": self.rejected}.get(table)
        return None if any(f.rows is None for f in files) else sum(f.rows or 0 for f in files)


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


def versions_of(store: str, rows: Sequence[Mapping[str, Any]]) -> list[PlanVersion]:
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


def not_a_store(store: str, *, has_tables: bool = False) -> StoreError:
    """Return the error for a path without a plan, or with tables of plans whose manifest is lost."""
    if has_tables:
        return StoreError(
            f"{store} is damaged: it holds plans, but table {MANIFEST}, which lists its versions, is lost",
            "restore that table from a backup, or plan into another store",
        )
    return StoreError(f"{store} is not a plan store: it has no table {MANIFEST}", "penstock plan makes one")


def given_up(store: str, write_id: str) -> StoreError:
    """Return the error of a write that `remove_unfinished` removed while it was still running."""
    return StoreError(
        f"write {write_id} to {store} was removed as unfinished while it ran; nothing was published",
        "plan again; `older_than` of remove_unfinished is the age from which a write counts as dead",
    )


_NOTES = "_versions"
"""A folder that Delta ignores, because its name starts with `_`. A note's name is the version's number, or,
while it is being published, `.` and its write_id (a staged note)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NANOSECONDS_OF_A_TICK = 100_000_000
"""Time stamps of file systems are coarse: a folder may change twice within one tick and look the same."""


Row = PlanVersion | ManifestRow


def newest_version(store: str, versions: Iterable[Row] = ()) -> int:
    """Return the highest number ever published, from the notes and these rows of the manifest; 0 if none."""
    return max([0, *noted_numbers(store), *(v.version or 0 for v in versions)])


def noted_numbers(store: str) -> Set[int]:
    """Return the versions that have a note, readable or not."""
    if not is_local(store):
        return frozenset()
    folder = _folder(store)
    try:
        status = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    if time.time_ns() - status.st_mtime_ns < _NANOSECONDS_OF_A_TICK:
        return _numbers(folder)
    return _numbers_at(folder, (status.st_ino, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=16)
def _numbers_at(folder: str, identity: tuple[int, ...]) -> frozenset[int]:
    """Return the numbers noted in a folder; `identity` differs once a note is added or removed."""
    return _numbers(folder)


def _numbers(folder: str) -> frozenset[int]:
    try:
        return frozenset(int(name) for name in os.listdir(folder) if name.isdecimal())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def noted_versions(store: str) -> list[PlanVersion]:
    """Return the versions in intact notes, oldest first."""
    noted = (_read(store, name) for name in sorted(_names(store)) if name.isdecimal())
    return [version for version in noted if version is not None]


def staged_versions(store: str) -> list[PlanVersion]:
    """Return versions whose writer ended or was killed shortly before or after publishing them."""
    names = [name for name in sorted(_names(store)) if name.startswith(".") and is_write_id(name[1:])]
    staged = ((name, _read(store, name)) for name in names)
    return [version for name, version in staged if version is not None and name == f".{version.write_id}"]


def stage_note(store: str, version: PlanVersion) -> None:
    """Write the note of a version before it is published, so that a full disk prevents publishing."""
    if is_local(store):
        _write(store, f".{version.write_id}", version)


def note_version(store: str, version: PlanVersion) -> None:
    """Turn the staged note of a version into its note, once it is published."""
    if not is_local(store):
        return
    staged = _read(store, f".{version.write_id}")
    if staged is not None and _same(staged, version):
        # Another writer that has read the manifest meanwhile may note the version and remove the staged note.
        with suppress(FileNotFoundError):
            _name_if_free(_path(store, f".{version.write_id}"), _path(store, _name(version)))
            sync_folder(_folder(store))
            return
    renew_notes(store, [version])


def _name_if_free(path: str, name: str) -> None:
    """Rename a file; if the name is taken, remove the file instead.

    If the file system has no hard links, the new file is written under its name; a partial one, which a kill
    leaves, is rewritten by `renew_notes`.
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


def renew_notes(store: str, versions: Iterable[PlanVersion]) -> None:
    """Write the notes of these rows of the manifest that are missing or damaged.

    A version that is noted as dropped stays so: the rows may have been read before the drop.
    """
    if not is_local(store):
        return
    numbers = noted_numbers(store)
    for version in versions:
        if version.version is None:
            continue
        known = noted_version(store, version.version)
        if known is None or not _is_as_noted(version, known):
            # If there was no note, one written meanwhile may record that the version is dropped.
            _write(
                store, _name(version), version, replacing=version.version in numbers or _is_dropped(version)
            )
            drop_staged(store, version.write_id)


def drop_staged(store: str, write_id: str) -> None:
    """Remove the note of a version that will not be published."""
    if is_local(store) and is_write_id(write_id) and not os.path.islink(_folder(store)):
        with suppress(FileNotFoundError):
            os.unlink(_path(store, f".{write_id}"))


def lost_versions(noted: Set[int], versions: Iterable[Row]) -> list[int]:
    """Return numbers that were published but are missing in `versions`, all rows of the manifest.

    `noted`: noted_numbers from before the manifest was read, because a version that another writer publishes
    is in the manifest first.
    """
    return sorted(noted - {v.version for v in versions})


def has_lost_newest(noted: Set[int], versions: Iterable[Row]) -> bool:
    """Return whether the newest published version is among `lost_versions`."""
    return max(noted, default=0) > max((v.version or 0 for v in versions), default=0)


def require_whole(store: str, noted: Set[int], versions: Iterable[Row]) -> None:
    """Raise StoreError if the manifest, all of whose rows these are, has lost the newest version."""
    if has_lost_newest(noted, versions):
        raise lost(store, max(noted))


def lost(store: str, number: int) -> StoreError:
    """Return the error for a published version that the manifest no longer has."""
    return StoreError(
        f"{store} is damaged: version {number} was published, but table {MANIFEST} has lost it",
        f"penstock verify {store} --repair restores it, and so does penstock plan --out {store}; --version "
        "selects an older one",
    )


def require_as_noted(store: str, versions: list[PlanVersion]) -> list[PlanVersion]:
    """Return these rows of the manifest; raise StoreError if one differs from its note."""
    for version in versions:
        noted = noted_version(store, version.version)
        if noted is not None and not _is_as_noted(version, noted):
            raise not_as_written(store, noted.version)
    return versions


def noted_version(store: str, number: int | None) -> PlanVersion | None:
    """Return the note of a version; None if it has none, or a damaged one."""
    return None if number is None or not is_local(store) else _read(store, f"{number:020}")


def time_of_note(store: str, number: int | None) -> float | None:
    """Return when the note of a version was last written, in seconds since 1970; None if there is none.

    That is when the version was published or dropped.
    """
    if number is None or not is_local(store):
        return None
    try:
        return os.stat(_path(store, f"{number:020}")).st_mtime
    except FileNotFoundError:
        return None


def not_as_written(store: str, number: int | None) -> StoreError:
    """Return the error for a damaged row of the manifest."""
    return StoreError(
        f"{store} is damaged: the row of version {number} in table {MANIFEST} has changed since it was "
        "written",
        repair_hint(store),
    )


def repair_hint(store: str) -> str:
    """Return the hint for a damaged manifest."""
    if not noted_versions(store):
        return "restore that table from a backup, or plan into another store"
    return f"penstock verify {store} --repair restores the table; so does penstock plan --out {store}"


def _read(store: str, name: str) -> PlanVersion | None:
    try:
        with open(_path(store, name), "rb") as file:
            checksum, _, text = file.read().partition(b"\n")
    except (FileNotFoundError, IsADirectoryError):
        return None
    if checksum.decode(errors="replace") != xxh3_128_hexdigest(text):
        return None
    row = json.loads(text)
    return versions_of(
        store, [{**row, "published_at": _EPOCH + timedelta(microseconds=row["published_at"])}]
    )[0]


def _is_dropped(version: PlanVersion) -> bool:
    return version.state == VersionState.DROPPED


def _write(store: str, name: str, version: PlanVersion, *, replacing: bool = True) -> None:
    folder = _folder(store)
    os.makedirs(folder, exist_ok=True)
    row = manifest_row(version)
    row["published_at"] = (version.published_at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    text = json.dumps(row).encode()
    unfinished = _path(store, f"#{uuid4().hex}")
    try:
        with open(unfinished, "wb") as file:
            file.write(xxh3_128_hexdigest(text).encode() + b"\n" + text)
            file.flush()
            sync_descriptor(file.fileno(), file.name)
        if replacing:
            os.replace(unfinished, _path(store, name))
        else:
            _name_if_free(unfinished, _path(store, name))
    finally:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
    sync_folder(folder)
    sync_folder(os.path.dirname(folder))


def _is_as_noted(row: PlanVersion, noted: PlanVersion) -> bool:
    """Compare a row with its note; a version that is being dropped is noted as dropped first."""
    dropping = noted.state == VersionState.DROPPED and row.state == VersionState.COMPLETE
    return _same(row, replace(noted, state=row.state) if dropping else noted)


def _same(version: PlanVersion, other: PlanVersion) -> bool:
    return version.state == other.state and _row_checksum(version) == _row_checksum(other)


def _names(store: str) -> list[str]:
    if not is_local(store):
        return []
    try:
        return os.listdir(_folder(store))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _name(version: PlanVersion) -> str:
    return f"{version.version:020}"


def _path(store: str, name: str) -> str:
    return os.path.join(_folder(store), name)


def _folder(store: str) -> str:
    return os.path.join(local_folder(store, MANIFEST), _NOTES)
