"""Write the tables of one plan as a new version of a store, or find that nothing has changed."""

import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from penstock.engine.machine.machine_error import machine_error, takes_no_files
from penstock.engine.machine.replace_file import NO_HARD_LINKS, sync_descriptor, sync_folder
from penstock.engine.store.data_files import (
    Damage,
    OpenFile,
    checksum,
    compare_files,
    find_damage,
    make_log_durable,
)
from penstock.engine.store.delta_rs_tables import DeltaRsTables, as_stored
from penstock.engine.store.delta_table import (
    is_table_of_store,
    require_columns_to_write,
    require_features_to_write,
    set_aside_unreadable,
    shared_tables,
)
from penstock.engine.store.plan_versions import (
    VersionNotes,
    is_published,
    is_store,
    newest_version,
    publish,
    read_listed,
    repair_if_damaged,
    require_not_lost,
    start_manifest,
)
from penstock.engine.store.store_location import MANIFEST, Location, require_no_version, store_errors
from penstock.engine.store.store_tables import (
    PARALLEL_WRITES,
    WRITE_ID,
    DataFile,
    PlanVersion,
    Rows,
    StoreTables,
    VersionNumber,
    VersionState,
    in_files,
    is_write_id,
    require_rows,
)
from penstock.plans.errors import MachineError, PenstockError, StoreError
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY


class WriteInProgress(NamedTuple):
    """A write that has already added the rows of `tables`, in `files`."""

    write_id: str
    tables: Collection[str] = ()
    files: Sequence[DataFile] = ()


@shared_tables()
def write_plan(
    delta: StoreTables[Rows],
    tables: Mapping[str, Rows],
    *,
    planner_version: str,
    options: Mapping[str, str],
    rows: Mapping[str, int] | None = None,
    begun: WriteInProgress | None = None,
) -> VersionNumber:
    """Write `tables` (names of plans.tables.TABLES to their rows) and return the number of their version.

    `delta`: the store, as DeltaRsTables (Arrow tables) or tables_of_spark (DataFrames). If the newest version
    was written by the same planner with the same options from the same topologies (by fingerprint) and has
    the same refusals, nothing is written and its number is returned, as `unchanged`. Else each table gets its
    rows in one transaction, and a row of the manifest makes all of them visible at once. `options`: the
    options that the plan depends on, besides its input. `rows`: estimated rows of each table, if the caller
    knows; Spark divides large tables into files by them, unless they are packed. `begun`: a write to
    continue; it is published or, unless an error comes before that, deleted.

    Data in a local store is on disk before its version is visible. A write that fails deletes its rows and
    files; one that is killed leaves rows that are never read and that `remove_unfinished` deletes. Raises
    StoreError (unknown table, no table topologies, write removed as unfinished while it ran, a path that
    cannot be a store, plans whose manifest is lost), MachineError (no space, no permission) and SchemaError.
    """
    _require_plan(tables)
    require_target(delta.store)
    version = _nothing_changed(delta, tables, planner_version=planner_version, options=options)
    if version is not None:
        if begun is not None:
            discard(delta, begun.tables, begun.write_id)
        return version
    return _write(delta, tables, rows or {}, begun, planner_version=planner_version, options=options)


@shared_tables()
def write_version(
    delta: StoreTables[Rows],
    tables: Mapping[str, Rows],
    *,
    planner_version: str,
    options: Mapping[str, str],
    rows: Mapping[str, int] | None = None,
) -> VersionNumber:
    """Write a new version like write_plan, even if nothing has changed: every run is a version of its own."""
    _require_plan(tables)
    require_target(delta.store)
    return _write(delta, tables, rows or {}, None, planner_version=planner_version, options=options)


def _write(
    delta: StoreTables[Rows],
    tables: Mapping[str, Rows],
    rows: Mapping[str, int],
    begun: WriteInProgress | None,
    *,
    planner_version: str,
    options: Mapping[str, str],
) -> VersionNumber:
    write_id, written, files = begun or WriteInProgress(new_write_id())
    unwritten = {table: table_rows for table, table_rows in tables.items() if table not in written}
    with store_errors(delta.store, "writing"):
        try:
            start_manifest(delta)
            set_aside_unreadable(delta.store, unwritten)
            delta.append_all(unwritten, write_id, rows)
            _require_unchanged(delta, WriteInProgress(write_id, written, files))
            return _publish_write(delta, tables, write_id, planner_version=planner_version, options=options)
        except BaseException:
            discard(delta, tables, write_id)
            raise


def _require_unchanged(delta: StoreTables[Rows], begun: WriteInProgress) -> None:
    """Raise StoreError unless the tables still list the files written to them earlier."""
    for table in begun.tables:
        written, listed = (
            [f for f in begun.files if f.table == table],
            delta.listed_files(table, begun.write_id),
        )
        damage = [Damage(table, None, "is gone")] if listed is None else compare_files(table, written, listed)
        for _, file, problem in damage:
            raise StoreError(
                f"{delta.store}: table {table} was changed while the plan was made: "
                f"{'it' if file is None else file + ':'} {problem}",
                "plan again when nothing else changes the store's folders",
            )


@shared_tables()
def _publish_write(
    delta: StoreTables[Rows],
    tables: Collection[str],
    write_id: str,
    *,
    planner_version: str,
    options: Mapping[str, str],
) -> VersionNumber:
    """Publish a write whose `tables` all have their rows; return the number of its version."""
    repair_if_damaged(delta)
    written = PlanVersion(
        version=None,
        write_id=write_id,
        state=VersionState.COMPLETE,
        published_at=datetime.now(UTC),
        planner_version=planner_version,
        options=options,
        tables=tuple(name for name in TABLES if name in tables),
        topologies=0,
        rejected=0,
        files=_recorded_files(delta, tables, write_id),
    )
    topologies, rejected = (_rows_of(delta, written, name) for name in ("topologies", "rejected"))
    return VersionNumber(publish(delta, replace(written, topologies=topologies, rejected=rejected)))


_PARALLEL_READS = 4


def _recorded_files(delta: StoreTables[Rows], tables: Iterable[str], write_id: str) -> tuple[DataFile, ...]:
    """Return the files of a write in these tables, with checksums if the store is local."""
    logs = delta.logs

    def list_files(table: str) -> list[DataFile]:
        files, folder = logs.listed_files(table, write_id) or [], delta.store.folder
        if folder is None:
            return files
        return [file._replace(checksum=checksum(os.path.join(folder, table, file.path))) for file in files]

    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="penstock-checksum") as pool:
        return tuple(file for files_of_table in pool.map(list_files, tables) for file in files_of_table)


def new_write_id() -> str:
    """Return a unique id that starts with the UTC time, which tells `remove_unfinished` the write's age."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{uuid4().hex[:12]}"


def _require_plan(tables: Collection[str]) -> None:
    """Raise StoreError unless these are tables of a plan, with topologies among them."""
    unknown = sorted(set(tables) - set(TABLES))
    if unknown or "topologies" not in tables:
        raise StoreError(
            f"tables {', '.join(unknown)} are not part of a plan"
            if unknown
            else "the table topologies is required",
            f"a plan's tables are {', '.join(TABLES)}",
        )


def _rows_of(delta: StoreTables[Rows], written: PlanVersion, table: str) -> int:
    """Return the rows of a write in a table, from its files, or counted if the log does not record them."""
    if table not in written.tables:
        return 0
    rows = written.rows_of(table)
    return delta.count(delta.read(table, written.write_id)) if rows is None else rows


# Remove a failed write.


_TIMES_TO_REMOVE = 5


def discard(delta: StoreTables[Rows], tables: Iterable[str], write_id: str) -> None:
    """Delete the data of a write, unless it was published before the error.

    Files go first, which makes room on a full disk for the entries in the logs. A local store is cleaned up
    without Spark, because Spark may have caused the failure.
    """
    logs = delta.logs
    with suppress(PenstockError, *logs.errors):
        if not is_published(logs, write_id):
            VersionNotes(delta.store).drop_staged(write_id)
            remove_files(delta.store, tables, write_id)
            for table in tables:
                with suppress(PenstockError, *logs.errors):
                    logs.delete(table, [write_id])


def remove_files(store: Location, tables: Iterable[str], write_id: str) -> None:
    """Remove the files of a write without readers from a local store, committed or not.

    Cancelled tasks run on for a moment: one may add a file to a folder while it is removed, but
    cannot create one in a folder that is gone. Ids that are not write_ids, and links, are skipped.
    """
    if store.folder is not None and is_write_id(write_id):
        for table in tables:
            if os.path.islink(os.path.join(store.folder, table)):
                continue
            folder = os.path.join(store.folder, table, f"{WRITE_ID}={write_id}")
            for _ in range(_TIMES_TO_REMOVE):
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.lexists(folder) or os.path.islink(folder):
                    break


# Check before the work starts that a store can be written to a path.


_LEFT_BY_FILE_SYSTEMS = ("lost+found",)
_MOST_NAMES = 5


def require_target(store: str | Location) -> list[str]:
    """Raise StoreError unless `store` is a path that Delta can have, and new, an empty folder, or a store.

    The store must have tables with the columns of this version of Penstock, without Delta features that a
    write would violate, and a manifest that can be read or restored. Returns sentences about repairs, for
    users. Raises MachineError if the folder cannot be created or written to. Only local file systems are
    checked.
    """
    delta = DeltaRsTables(store)
    at, folder = delta.store, delta.store.folder
    require_no_version(at.name, folder)
    if folder is None:
        return []
    try:
        existing = _existing(folder)
        if not os.path.isdir(existing):
            obstacle = "a link to nothing" if os.path.islink(existing) else "a file"
            where = "" if existing == folder else f"{existing} is "
            raise StoreError(f"cannot write a store to {at}: {where or 'it is '}{obstacle}, not a folder")
        repaired = repair_if_damaged(delta)
        if existing == folder:
            _require_empty_or_store(delta, folder)
        _require_new_files(existing, at)
        _require_links_and_sync(existing, at)
        return repaired
    except OSError as error:
        raise machine_error(error, f"writing {at}") or MachineError(f"writing {at}: {error}") from error


def _require_new_files(folder: str, store: Location) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileNotFoundError as error:
        raise takes_no_files(folder, f"writing {store}") from error


def _require_links_and_sync(folder: str, store: Location) -> None:
    """Raise MachineError unless `folder` supports hard links, which commits need, and fsync."""
    with tempfile.NamedTemporaryFile(prefix=_PROBE, dir=folder) as file:
        second = f"{file.name}.link"
        try:
            os.link(file.name, second)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            raise MachineError(
                f"writing {store}: the file system of {folder} has no hard links "
                f"({os.strerror(error.errno)}), which commits of Delta tables need",
                "choose a folder of a local disk",
            ) from error
        os.unlink(second)
        sync_descriptor(file.fileno(), folder)
    sync_folder(folder)


_PROBE = ".penstock-"
"""Prefix of temporary files that test the abilities of a folder."""


def _existing(path: str) -> str:
    """Return the path itself, or its nearest parent that exists."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _require_empty_or_store(delta: DeltaRsTables, folder: str) -> None:
    store = delta.store
    names = sorted(set(os.listdir(folder)) - set(_LEFT_BY_FILE_SYSTEMS))
    names = [name for name in names if not name.startswith(_PROBE)]
    if MANIFEST in names:
        require_not_lost(delta)
        if is_store(delta):
            read_listed(delta)
        require_columns_to_write(store, TABLES)
        require_features_to_write(store, (*TABLES, MANIFEST))
        return
    others = [name for name in names if name not in TABLES or not is_table_of_store(store.of_table(name))]
    if others:
        more = f" and {len(others) - _MOST_NAMES:,} more" if len(others) > _MOST_NAMES else ""
        raise StoreError(
            f"cannot write a store to {store}: the folder is neither empty nor a store; "
            f"it contains {', '.join(map(repr, others[:_MOST_NAMES]))}{more}",
            "name a new folder, an empty one, or a store that penstock has written",
        )
    require_not_lost(delta)


# Find topologies that the newest version of a store already contains, unchanged.


_REFUSAL = ("name", "error_stage", "error", "message")
"""Columns of `rejected` that identify a refusal."""
_TOPOLOGY_KEY = ("topology_id", "name", "fingerprint")
"""Columns of `topologies` that identify an unchanged topology."""


def _nothing_changed(
    delta: StoreTables[Rows], tables: Mapping[str, Rows], *, planner_version: str, options: Mapping[str, str]
) -> VersionNumber | None:
    """Return the newest version if `tables` came from the same topologies and refusals, else None.

    Also None if that version is damaged, or the manifest has lost it. Raises StoreError if the manifest
    cannot be read.
    """
    newest = newest_version(delta)
    if (
        newest is None
        or newest.files is None
        or newest.planner_version != planner_version
        or dict(newest.options) != dict(options)
        or set(newest.tables) != set(tables)
    ):
        return None
    with store_errors(delta.store, "reading"):
        if find_damage(delta, newest, newest.tables):
            return None
    topologies = tables["topologies"]
    if delta.count(topologies) != newest.topologies:
        return None
    stored = delta.read("topologies", newest.write_id, _TOPOLOGY_KEY)
    if delta.count(delta.among(topologies, stored, _TOPOLOGY_KEY)) != newest.topologies:
        return None
    if "rejected" in tables:
        refused = delta.read("rejected", newest.write_id, _REFUSAL)
        if not delta.same(tables["rejected"], refused, _REFUSAL):
            return None
    return None if newest.version is None else VersionNumber(newest.version, unchanged=True)


# Write a plan to a local store while it is made, so that the whole plan is never in memory.


_COMPARED = ("topologies", "rejected")
_TABLES_AT_A_TIME = 2


class WriteWhilePlanning:
    """Writes a fleet part by part, or a giant table by table, to a local store.

    A planner passes tables to it (see plans.planners.plan_in_parts.Finished). None of it can be read before
    `publish`; every other end is `discard`.
    """

    @shared_tables()
    def __init__(self, store: str) -> None:
        """Raises StoreError and MachineError if there can be no store."""
        self._delta = DeltaRsTables(store)
        self._store = self._delta.store
        require_target(self._store)
        self._write_id = new_write_id()
        self._append = StagedAppend(self._delta, self._write_id)
        self._ids: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._rejected = 0
        with store_errors(self._store, "writing"):
            start_manifest(self._delta)
            set_aside_unreadable(self._store, TABLES)

    def add_part(self, tables: Mapping[str, pa.Table]) -> None:
        """Add all tables of one part of a fleet. Raises StoreError, MachineError and SchemaError."""
        with store_errors(self._store, "writing"):
            self._append.add_all(tables, _TABLES_AT_A_TIME)
        for table, rows in tables.items():
            self._count(table, rows)

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        """Add a table of a giant; see Finished. Raises StoreError, MachineError and SchemaError."""
        with store_errors(self._store, "writing"):
            self._append.begin(table)
            for rows in parts:
                self._append.add(table, rows)
                self._count(table, rows)
        pa.default_memory_pool().release_unused()

    def clear(self) -> None:
        """See Finished."""
        self._append.clear()
        self._ids, self._rejected = [], 0

    def planned(self) -> tuple[int, int, int]:
        """Return the numbers of planned topologies, of their distinct ids, and of rejected topologies."""
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, np.int64)
        return len(ids), len(np.unique(ids)), self._rejected

    @shared_tables()
    def publish(self, *, planner_version: str, options: Mapping[str, str]) -> VersionNumber:
        """Publish as engine.store.write_plan; if the newest version has the same plan, return its number."""
        with store_errors(self._store, "writing"):
            rows = self._append.commit(PARALLEL_WRITES)
            _require_plan(rows)
            tables = {table: TABLES[table].empty_table() for table in rows}
            tables |= {table: self._delta.read(table, self._write_id) for table in _COMPARED}
            same = _nothing_changed(self._delta, tables, planner_version=planner_version, options=options)
            if same is not None:
                self.discard()
                return same
            return _publish_write(
                self._delta, rows, self._write_id, planner_version=planner_version, options=options
            )

    def discard(self) -> None:
        """Delete the written data, unless it was published."""
        self._append.clear()
        discard(self._delta, TABLES, self._write_id)

    def _count(self, table: str, rows: pa.Table) -> None:
        if table == "topologies":
            self._ids.append(rows[TOPOLOGY].to_numpy())
        elif table == "rejected":
            self._rejected += len(rows)


@dataclass(slots=True)
class _TableWrite:
    """A table of a write, with its log's version before the write, and the rows and file added so far."""

    before: int
    rows: int = 0
    file: OpenFile | None = None


@dataclass(frozen=True)
class StagedAppend:
    """Appends rows to tables of a local store, which no reader sees before `commit`.

    Until then they are in files of the write `write_id` that no table's log lists; `clear` and
    `discard` remove them. Tables may come in any order, and repeatedly: all rows of a table go into one file.
    """

    delta: DeltaRsTables
    write_id: str
    _tables: dict[str, _TableWrite] = field(default_factory=dict)

    def add_all(self, tables: Mapping[str, pa.Table], threads: int) -> None:
        """`add` all tables, several at a time; raise the first error after running writes have ended."""
        with ThreadPoolExecutor(threads, thread_name_prefix="penstock-store") as pool:
            writes = [pool.submit(self.add, table, rows) for table, rows in tables.items()]
            try:
                for done in writes:
                    done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def begin(self, table: str) -> _TableWrite:
        """Make the table part of the write, whether it gets rows or not, and return its state."""
        if table not in self._tables:
            self._tables[table] = _TableWrite(self.delta.before_write(table, self.write_id)[0])
        return self._tables[table]

    def add(self, table: str, rows: pa.Table) -> None:
        """Write `rows` to the end of the table's file. Raises SchemaError and OSError."""
        require_rows(rows, table)
        table_write = self.begin(table)
        for stored in as_stored(rows, table):
            if table_write.file is None:
                folder, inside = self.delta.store.join(table), f"{WRITE_ID}={self.write_id}"
                os.makedirs(os.path.join(folder, inside), exist_ok=True)
                table_write.file = OpenFile(folder, inside, in_files(table))
            table_write.file.write(stored)
        table_write.rows += len(rows)

    def commit(self, threads: int) -> dict[str, int]:
        """Make all files durable and add them to their tables; return the number of rows of each table."""
        with ThreadPoolExecutor(threads, thread_name_prefix="penstock-store") as pool:
            for done in [pool.submit(self._commit, table) for table in self._tables]:
                done.result()
        return {table: self._tables[table].rows for table in TABLES if table in self._tables}

    def clear(self) -> None:
        """Remove uncommitted files; `discard` removes the others, if the write was not published."""
        for table_write in self._tables.values():
            if (file := table_write.file) is not None:
                file.abandon()
                table_write.file, table_write.rows = None, 0

    def _commit(self, table: str) -> None:
        table_write = self._tables[table]
        since = table_write.before
        if table_write.file is not None:
            path = table_write.file.close()
            table_write.file = None  # `discard` checks whether it belongs to a version
            self.delta.commit_files(table, {path: table_write.rows}, self.write_id)
        make_log_durable(self.delta.store.join(table), since)
