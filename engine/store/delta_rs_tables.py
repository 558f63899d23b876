"""Access the Delta tables of a store as Arrow tables through delta-rs (`deltalake`), without a JVM."""

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import count
from typing import Any, Literal, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from penstock.engine.store.data_files import add_action, make_log_durable, write_file
from penstock.engine.store.delta_table import (
    COMMITS_OF_A_CHECKPOINT,
    STRICT,
    commit_files,
    create_table,
    delta_rs_schema,
    open_log_tail,
    open_newest,
    open_table,
    read_shared,
    share_log_tail,
    to_table,
)
from penstock.engine.store.store_location import MANIFEST, Location, locate
from penstock.engine.store.store_tables import (
    PLAN_VERSIONS,
    TRANSACTION_VERSION,
    WRITE_ID,
    DataFile,
    ManifestRead,
    ManifestRow,
    Result,
    append_side_by_side,
    application_id,
    in_files,
    require_rows,
    retry_conflicts,
    stored_columns,
)
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.tables import TABLES

# Commits. delta-rs itself repeats a commit that came second, even one that creates a table: every commit that
# must be the next one, or none, is made with STRICT.


# Rows of a manifest, read straight from its few files: a scan by delta-rs takes ten times as long.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _listed_writes(manifest: Location, table: DeltaTable) -> list[ManifestRow]:
    """Return the writes that the manifest lists, in no order."""
    paths = _paths(manifest, table)
    if paths is None:
        rows = to_table(table.scan(list(ManifestRow._fields)))
        return _listed(rows)
    return [listed for path in paths for listed in _listed_in_file(path, _identity(path))]


def _manifest_rows(
    manifest: Location, table: DeltaTable, write_ids: Collection[str] | None = None
) -> pa.Table:
    """Return the manifest's rows of some writes, or all (None), with the columns that it has."""
    known = [field.name for field in table.schema().fields if field.name in PLAN_VERSIONS.names]
    paths = _paths(manifest, table)
    if paths is None:
        return to_table(table.scan(known, None if write_ids is None else _among(write_ids)))
    schema = in_files(MANIFEST, known)
    if write_ids is not None:
        paths = [
            path
            for path in paths
            if any(w.write_id in write_ids for w in _listed_in_file(path, _identity(path)))
        ]
    parts = [_read(path, schema) for path in paths]
    none = pa.Table.from_batches([], schema)  # not empty_table, which imports pandas
    rows = pa.concat_tables([none, *parts])
    if write_ids is None:
        return rows
    # Not a filter by an array: making one from Python values imports pandas.
    wanted = [place for place, row_id in enumerate(rows[WRITE_ID].to_pylist()) if row_id in write_ids]
    return pa.concat_tables([none, *(rows.slice(place, 1) for place in wanted)])


def whole_rows(
    manifest: Location, table: DeltaTable, write_ids: Collection[str] | None
) -> list[Mapping[str, Any]]:
    """Return the rows of manifest_rows as Python values."""
    rows = _manifest_rows(manifest, table, write_ids)
    # Not to_pylist: for timestamps, it imports pandas.
    written = [_EPOCH + timedelta(microseconds=t) for t in rows["published_at"].cast(pa.int64()).to_pylist()]
    others = rows.drop_columns(["published_at"]).to_pylist()
    return [{**row, "published_at": at} for row, at in zip(others, written, strict=True)]


def _rows_of_files(table: DeltaTable) -> dict[str, int | None]:
    """Return the files in a table's newest state, and the rows of each if the log records them."""
    actions = to_table(table.get_add_actions(flatten=True))
    if not len(actions):
        return {}
    return dict(zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True))


def _paths(manifest: Location, table: DeltaTable) -> list[str] | None:
    """Return the files of a local manifest; None if its log has more than files (deletion vectors)."""
    if manifest.folder is None or table.protocol().min_reader_version > 1:
        return None
    return [manifest.join(unquote(file)) for file in _rows_of_files(table)]


def _read(path: str, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        rows = file.read(names)
    for field in schema:
        if field.name not in names:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schema.names).cast(schema)


def _identity(path: str) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=256)
def _listed_in_file(path: str, identity: tuple[int, ...]) -> list[ManifestRow]:
    """Read a file's list of writes. Files never change; `identity` differs if one was damaged or replaced."""
    return _listed(_read(path, in_files(MANIFEST, ManifestRow._fields)))


def _listed(rows: pa.Table) -> list[ManifestRow]:
    columns = (rows[name].to_pylist() for name in ManifestRow._fields)
    return list(map(ManifestRow._make, zip(*columns, strict=True)))


def _among(write_ids: Collection[str]) -> str:
    quoted = ", ".join("'" + write_id.replace("'", "''") + "'" for write_id in sorted(write_ids))
    return f"{WRITE_ID} in ({quoted})"


_FORBIDDEN = ("Unsupported table features", "Delta table is append-only")
"""Parts of the messages of commits that fail at every attempt."""

FILES_OF_A_LEVEL = 16
"""See files_to_merge."""


class DeltaRsLogs:
    """The operations of StoreTables on tables, logs and the manifest, for any kind of rows."""

    errors: tuple[type[Exception], ...] = (DeltaError, pa.ArrowException, OSError, UnicodeDecodeError)

    def __init__(self, store: str | Location) -> None:
        """Take the tables of `store`. Raises StoreError for a path that Delta cannot have."""
        self.store = locate(store)

    @property
    def logs(self) -> Self:
        """Return the same tables for reading their logs."""
        return self

    def is_conflict(self, error: Exception) -> bool:
        """Return whether another commit came first; deltalake raises the same class for forbidden commits."""
        return isinstance(error, CommitFailedError) and not any(text in str(error) for text in _FORBIDDEN)

    def has(self, table: str) -> bool:
        """Return whether the table exists."""
        at = self.store.of_table(table)
        return open_log_tail(at) is not None or open_table(at) is not None

    def create(self, table: str) -> None:
        """Create the table, empty, if it does not exist, and add missing columns to the manifest."""
        at = self.store.of_table(table)
        tail = open_log_tail(at)
        if tail is None:
            create_table(at, table)
        if table == MANIFEST and (tail is None or not tail.columns.keys() >= set(PLAN_VERSIONS.names)):
            self.add_missing_columns(table)

    def before_write(self, table: str, write_id: str) -> tuple[int, bool]:
        """Return the version of the table, created if necessary, and whether it has its part of the write."""
        at = self.store.of_table(table)
        tail = open_log_tail(at)
        if tail is not None and not tail.columns.keys() >= set(stored_columns(table).names):
            self.add_missing_columns(table)
            tail = open_log_tail(at)
        if tail is not None and (known := tail.has_write(write_id)) is not None:
            return tail.version, known
        delta_table = create_table(at, table)
        return delta_table.version(), delta_table.transaction_version(application_id(write_id)) is not None

    def commit_files(self, table: str, files: Mapping[str, int], write_id: str) -> None:
        """Add files of a local store to the table, unless it already has files of this write.

        `files`: their paths in the table's folder, and the rows of each.
        """
        at = self.store.of_table(table)
        folder = at.join()
        tail = commit_files(folder, files, write_id, open_log_tail(at))
        if tail is not None:
            share_log_tail(at, tail)
            return
        actions: list[AddAction | RemoveAction] = [
            add_action(folder, file, rows, {WRITE_ID: write_id}) for file, rows in files.items()
        ]

        def commit() -> None:
            delta = DeltaTable(at.path)
            if delta.transaction_version(application_id(write_id)) is None:
                delta.create_write_transaction(
                    actions, "append", delta.schema(), [WRITE_ID], commit_properties=once(write_id)
                )

        retry_conflicts(self, commit, f"writing {at}")

    def delete(self, table: str, write_ids: Collection[str]) -> None:
        """Delete the rows of these writes in `table`."""
        if not write_ids:
            return
        at = self.store.of_table(table)
        before = open_table(at)
        if before is None:
            return
        listed = ", ".join(f"'{write_id}'" for write_id in sorted(write_ids))
        retry_conflicts(
            self, lambda: DeltaTable(at.path).delete(f"{WRITE_ID} in ({listed})"), f"deleting from {at}"
        )
        if at.folder is not None:
            make_log_durable(at.folder, since=before.version())

    def write_ids(self, table: str) -> set[str]:
        """Return the writes that have files in `table`, according to its log."""
        delta_table = open_table(self.store.of_table(table))
        if delta_table is None:
            return set()
        actions = to_table(delta_table.get_add_actions(flatten=True))
        return set(actions[f"partition.{WRITE_ID}"].to_pylist()) if len(actions) else set()

    def listed_files(self, table: str, write_id: str) -> list[DataFile] | None:
        """Return a write's files in the table's log; None without a table. Raises DeltaError."""
        at = self.store.of_table(table)
        tail = open_log_tail(at)
        recent = None if tail is None else tail.files(table, write_id)
        if recent is not None:
            return recent
        delta_table = open_table(at)
        if delta_table is None:
            return None
        actions = to_table(delta_table.get_add_actions(flatten=True))
        if not len(actions):
            return []
        own = actions.filter(pc.equal(actions[f"partition.{WRITE_ID}"], write_id))
        rows = zip(*(own[name].to_pylist() for name in ("path", "num_records", "size_bytes")), strict=True)
        return [DataFile(table, unquote(path), count, size) for path, count, size in rows]

    def read_manifest(self) -> ManifestRead | None:
        """Return the current manifest, to which a row may be added; None if there is none."""
        manifest = self.store.of_table(MANIFEST)
        table = open_newest(manifest)
        if table is None:
            return None
        return ManifestRead(_listed_writes(manifest, table), partial(whole_rows, manifest, table), table)

    def shared_manifest(self) -> ManifestRead | None:
        """Return the current manifest; inside `shared_tables`, the object may be shared."""
        return read_shared(
            MANIFEST,
            self.store.of_table(MANIFEST),
            self.read_manifest,
            lambda seen: int(seen.state.version()),
        )

    @without_pandas()
    def insert_version(self, row: Mapping[str, Any], seen: ManifestRead) -> None:
        """Insert a row in the commit right after the `seen` one; another commit there is a conflict.

        In a local store, the commit also merges many small files of the manifest.
        """
        options = list(row["options"].items())
        rows = pa.Table.from_pylist([{**row, "options": options}], in_files(MANIFEST))
        manifest = self.store.of_table(MANIFEST)
        merged = [] if manifest.folder is None else files_to_merge(_rows_of_files(seen.state))
        if merged:
            tables = [pq.ParquetFile(manifest.join(unquote(file))).read() for file in merged]
            rows = pa.concat_tables([*tables, rows], promote_options="default").cast(rows.schema)
        self._commit(seen.state, rows, "append", merged)

    @without_pandas()
    def set_state(self, write_id: str, state: str) -> None:
        """Rewrite the manifest with another state of one write."""
        manifest = self.store.of_table(MANIFEST)
        table = DeltaTable(manifest.path)
        rows = _manifest_rows(manifest, table)
        states = [
            state if row_id == write_id else old_state
            for row_id, old_state in zip(rows["write_id"].to_pylist(), rows["state"].to_pylist(), strict=True)
        ]
        place = rows.column_names.index("state")
        changed = rows.set_column(place, "state", pa.array(states, pa.string()))
        self._commit(table, changed.cast(in_files(MANIFEST, rows.column_names)), "overwrite")

    def _commit(
        self,
        table: DeltaTable,
        rows: pa.Table,
        mode: Literal["append", "overwrite"],
        merged: Sequence[str] = (),
    ) -> None:
        """Commit a durable file right after the state of `table`, and remove the `merged` files."""
        folder = self.store.of_table(MANIFEST).folder
        if folder is None:
            write_deltalake(table, rows, mode=mode, commit_properties=STRICT)
            return
        since = table.version()
        file = write_file(folder, "", iter([rows]), rows.schema)
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [RemoveAction(path, False, now) for path in merged]
        actions.append(add_action(folder, file, len(rows), {}))
        try:
            table.create_write_transaction(
                actions,
                mode,
                table.schema(),
                commit_properties=STRICT,
                post_commithook_properties=PostCommitHookProperties(
                    # cleaning up lists the whole log
                    cleanup_expired_logs=(since + 1) % COMMITS_OF_A_CHECKPOINT == 0
                ),
            )
        except CommitFailedError:
            os.unlink(os.path.join(folder, file))
            raise
        make_log_durable(folder, since)

    def add_missing_columns(self, table: str) -> None:
        """Add the declared columns that an earlier release did not have."""

        at = self.store.of_table(table)

        def add() -> None:
            delta_table = DeltaTable(at.path)
            names = {field.name for field in delta_table.schema().fields}
            lacking = [f for f in delta_rs_schema(table).fields if f.name not in names]
            if lacking:
                delta_table.alter.add_columns(lacking, commit_properties=STRICT)

        retry_conflicts(self, add, f"adding columns to {at}")


def once(write_id: str) -> CommitProperties:
    """Return properties of a commit by which Delta remembers a table's part of a write."""
    now = time.time_ns() // 1_000_000  # Spark forgets a transaction without a time
    return CommitProperties(
        app_transactions=[Transaction(application_id(write_id), TRANSACTION_VERSION, now)]
    )


def files_to_merge(rows_of: Mapping[str, int | None]) -> list[str]:
    """Return the files to merge with the manifest's next row; most often none.

    Files are counted like digits: once there are FILES_OF_A_LEVEL - 1 files with fewer rows than
    FILES_OF_A_LEVEL, they and the next row become one file, which counts among the larger ones, and so on.
    So a manifest of N rows has about log N files, and each row is rewritten about log N times.
    """
    levels: dict[int, list[str]] = {}
    for path, rows in rows_of.items():
        level = 0
        while rows is not None and rows >= FILES_OF_A_LEVEL ** (level + 1):
            level += 1
        levels.setdefault(level, []).append(path)
    merged: list[str] = []
    for level in count():
        files = levels.get(level, [])
        if len(files) < FILES_OF_A_LEVEL - 1:
            return merged
        merged += files
    return merged


_ROWS_AT_A_TIME = 250_000


class DeltaRsTables(DeltaRsLogs):
    """StoreTables of Arrow tables."""

    def append_all(self, tables: Mapping[str, pa.Table], write_id: str, rows: Mapping[str, int]) -> None:
        """Append the rows of all `tables` under `write_id`. Raises SchemaError."""
        append_side_by_side(self, tables, write_id, rows)

    def append(self, table: str, rows: pa.Table, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows` under `write_id` in one transaction. Raises SchemaError."""
        require_rows(rows, table)
        at = self.store.of_table(table)
        if at.folder is not None:
            self._append_file(at.folder, table, rows, write_id)
            return
        delta_table = create_table(at, table)
        if len(rows) and delta_table.transaction_version(application_id(write_id)) is None:
            self.add_missing_columns(table)
            tagged = _tagged(rows, table, write_id)
            retry_conflicts(
                self,
                lambda: write_deltalake(at.path, tagged(), mode="append", commit_properties=once(write_id)),
                f"writing {at}",
            )

    def _append_file(self, folder: str, table: str, rows: pa.Table, write_id: str) -> None:
        since, is_written = self.before_write(table, write_id)
        if len(rows) and not is_written:
            # Not write_deltalake: on a full disk it prints a Rust panic.
            inside, stored = f"{WRITE_ID}={write_id}", as_stored(rows, table)
            self.commit_files(
                table, {write_file(folder, inside, stored, in_files(table)): len(rows)}, write_id
            )
        make_log_durable(folder, since)

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one write, with the declared columns or some of them."""
        names = list(columns or TABLES[table].names)
        schema, at = in_files(table, names), self.store.of_table(table)
        files = self.listed_files(table, write_id) if at.folder is not None else None
        if files is None:
            delta_table = DeltaTable(at.path)
            known = {field.name for field in delta_table.schema().fields}
            stored = [name for name in names if name in known]
            rows = to_table(delta_table.scan(stored, f"{WRITE_ID} = '{write_id}'"))
            return _with_columns(rows, schema).cast(schema)
        parts = (pq.ParquetFile(at.join(file.path)).read(names) for file in files)
        return pa.concat_tables(
            [pa.Table.from_batches([], schema), *(_with_columns(part, schema).cast(schema) for part in parts)]
        )

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """Return `action` itself."""
        return action

    def count(self, rows: pa.Table) -> int:
        """Return the number of rows."""
        return len(rows)

    @without_pandas()
    def among(self, rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
        """Return the part of `rows` whose key occurs in `others`."""
        known = _counted(others, key)
        keys = zip(*(rows[name].to_pylist() for name in key), strict=True)
        return rows.filter(pa.array([row_key in known for row_key in keys], pa.bool_()))

    def same(self, rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> bool:
        """Return whether both have the same values in these columns, each equally often."""
        return _counted(rows, columns) == _counted(others, columns)


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Select the columns of `schema`; those that an earlier release did not write are null."""
    for field in schema:
        if field.name not in rows.column_names and field.nullable:
            rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(schema.names)


def as_stored(rows: pa.Table, table: str) -> Iterator[pa.Table]:
    """Yield rows with the types of the store, some at a time, because casting copies."""
    schema = in_files(table)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        yield rows.slice(start, _ROWS_AT_A_TIME).select(schema.names).cast(schema)


def _tagged(rows: pa.Table, table: str, write_id: str) -> Callable[[], pa.RecordBatchReader]:
    """Return a function that makes a new reader of the rows with their write_id at each call."""
    schema = in_files(table).append(pa.field(WRITE_ID, pa.string(), False))

    def batches() -> Iterator[pa.RecordBatch]:
        for stored in as_stored(rows, table):
            for batch in stored.to_batches():
                columns = [*batch.columns, pa.repeat(write_id, len(batch))]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return lambda: pa.RecordBatchReader.from_batches(schema, batches())


def _counted(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[object, ...]]:
    """Count each distinct row."""
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
