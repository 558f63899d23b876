"""The Delta tables of a store through delta-rs (the `deltalake` package): Arrow tables, without a JVM.

delta-rs repeats by itself a commit that came second, even that of a new table: every commit that must be the
next one, or none, is made with STRICT.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from engine.store.data_files import DataFile
from engine.store.delta_rs_table import STRICT, create_table, delta_rs_schema, open_table, to_table
from engine.store.is_local import is_local, local_folder
from engine.store.manifest import MANIFEST, PLAN_VERSIONS
from engine.store.store_tables import (
    TRANSACTION_VERSION,
    ManifestRead,
    Result,
    application_id,
    retry_conflicts,
)
from engine.store.stored_tables import WRITE_ID
from engine.store.table_path import table_path
from engine.store.write_file import add_action, make_log_durable, write_file
from operators.common.without_pandas import without_pandas
from plans.errors import SchemaError
from plans.tables import TABLES, require_schema
from plans.tables.type_names import type_name

_ROWS_AT_A_TIME = 250_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DeltaRsTables:
    """StoreTables of Arrow tables."""

    store: str
    errors: tuple[type[Exception], ...] = (DeltaError, pa.ArrowException, OSError)

    def is_conflict(self, error: Exception) -> bool:
        """Whether another commit came first."""
        return isinstance(error, CommitFailedError)

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        return open_table(table_path(self.store, table)) is not None

    def create(self, table: str) -> None:
        """Make the table empty unless it is there, and add to the manifest the columns that it lacks."""
        create_table(table_path(self.store, table), table)
        if table == MANIFEST:
            retry_conflicts(self, self._add_missing_columns, f"adding columns to {self.store}")

    def appending(self) -> AbstractContextManager[None]:
        """An empty context."""
        return nullcontext()

    def append(self, table: str, rows: pa.Table, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows` under `write_id` in one transaction. Raises SchemaError."""
        require_rows(rows, table)
        if is_local(self.store):
            self.append_parts(table, [rows], write_id)
            return
        path = table_path(self.store, table)
        made = create_table(path, table)
        if len(rows) and made.transaction_version(application_id(write_id)) is None:
            tagged = _tagged(rows, table, write_id)
            retry_conflicts(
                self,
                lambda: write_deltalake(path, tagged(), mode="append", commit_properties=_once(write_id)),
                f"writing {path}",
            )

    def append_parts(self, table: str, parts: Iterable[pa.Table], write_id: str) -> int:
        """As `append`, of all `parts` in turn, to a table of a local store; how many rows they are."""
        path, folder = table_path(self.store, table), local_folder(self.store, table)
        made = create_table(path, table)
        since, rows = made.version(), 0

        def stored_parts() -> Iterator[pa.Table]:
            nonlocal rows
            for part in parts:
                require_rows(part, table)
                rows += len(part)
                yield from as_stored(part, table)

        if made.transaction_version(application_id(write_id)) is None:
            # Not write_deltalake: where the disk is full, it prints a Rust panic.
            stored = stored_parts()
            first = next(stored, None)
            if first is not None:
                inside = f"{WRITE_ID}={write_id}"
                file = write_file(folder, inside, chain([first], stored), in_files(table))
                self.commit_file(made, table, file, rows, write_id)
        make_log_durable(folder, since)
        return rows

    def commit_file(self, made: DeltaTable, table: str, file: str, rows: int, write_id: str) -> None:
        """Make a file that was written a part of the table, unless this write has one there."""
        path, folder = table_path(self.store, table), local_folder(self.store, table)
        action = add_action(folder, file, rows, {WRITE_ID: write_id})
        newest = [made]

        def commit() -> None:
            delta = newest.pop() if newest else DeltaTable(path)
            if delta.transaction_version(application_id(write_id)) is None:
                delta.create_write_transaction(
                    [action], "append", delta.schema(), [WRITE_ID], commit_properties=_once(write_id)
                )

        retry_conflicts(self, commit, f"writing {path}")

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of one write, with the declared columns or some of them."""
        names = list(columns or TABLES[table].names)
        found = to_table(DeltaTable(table_path(self.store, table)).scan(names, f"{WRITE_ID} = '{write_id}'"))
        return found.cast(in_files(table, names))

    def delete(self, table: str, write_ids: Collection[str]) -> None:
        """Delete what these writes left in `table`."""
        if not write_ids:
            return
        path = table_path(self.store, table)
        before = open_table(path)
        if before is None:
            return
        listed = ", ".join(f"'{write_id}'" for write_id in sorted(write_ids))
        retry_conflicts(
            self, lambda: DeltaTable(path).delete(f"{WRITE_ID} in ({listed})"), f"deleting from {path}"
        )
        if is_local(self.store):
            make_log_durable(local_folder(self.store, table), since=before.version())

    def write_ids(self, table: str) -> set[str]:
        """The writes that have files in `table`, by its log."""
        made = open_table(table_path(self.store, table))
        if made is None:
            return set()
        actions = to_table(made.get_add_actions(flatten=True))
        return set(actions[f"partition.{WRITE_ID}"].to_pylist()) if len(actions) else set()

    def listed_files(self, table: str, write_id: str) -> list[DataFile] | None:
        """The files of a write that the table's log lists; None if there is no table. Raises DeltaError."""
        made = open_table(table_path(self.store, table))
        if made is None:
            return None
        actions = to_table(made.get_add_actions(flatten=True))
        if not len(actions):
            return []
        columns = ["path", "num_records", "size_bytes", f"partition.{WRITE_ID}"]
        rows = zip(*(actions[name].to_pylist() for name in columns), strict=True)
        return [
            DataFile(table, unquote(path), count, size) for path, count, size, of in rows if of == write_id
        ]

    def read_manifest(self) -> ManifestRead | None:
        """The manifest as it is now; None if there is none."""
        table = open_table(table_path(self.store, MANIFEST))
        if table is None:
            return None
        rows = _manifest_rows(table)
        # Not to_pylist: where there are timestamps, it imports pandas.
        written = [
            _EPOCH + timedelta(microseconds=t) for t in rows["published_at"].cast(pa.int64()).to_pylist()
        ]
        others = rows.drop_columns(["published_at"]).to_pylist()
        return ManifestRead(
            [{**row, "published_at": at} for row, at in zip(others, written, strict=True)], table
        )

    @without_pandas()
    def insert_version(self, row: Mapping[str, Any], seen: ManifestRead) -> None:
        """Insert a row in the commit after the one that was `seen`; another commit there is a conflict."""
        options = list(row["options"].items())
        rows = pa.Table.from_pylist([{**row, "options": options}], in_files(MANIFEST))
        self._commit(seen.state, rows, "append")

    @without_pandas()
    def set_state(self, write_id: str, state: str) -> None:
        """Write the manifest again with another state of one write."""
        table = DeltaTable(table_path(self.store, MANIFEST))
        rows = _manifest_rows(table)
        states = [
            state if of == write_id else was
            for of, was in zip(rows["write_id"].to_pylist(), rows["state"].to_pylist(), strict=True)
        ]
        place = rows.column_names.index("state")
        changed = rows.set_column(place, "state", pa.array(states, pa.string()))
        self._commit(table, changed.cast(in_files(MANIFEST, rows.column_names)), "overwrite")

    def _commit(self, table: DeltaTable, rows: pa.Table, mode: str) -> None:
        """One commit after the state of `table`, with a file that is durable before."""
        if not is_local(self.store):
            write_deltalake(table, rows, mode=mode, commit_properties=STRICT)  # type: ignore[call-overload]
            return
        folder = local_folder(self.store, MANIFEST)
        since = table.version()
        file = write_file(folder, "", iter([rows]), rows.schema)
        action = add_action(folder, file, len(rows), {})
        try:
            table.create_write_transaction([action], mode, table.schema(), commit_properties=STRICT)
        except CommitFailedError:
            os.unlink(os.path.join(folder, file))
            raise
        make_log_durable(folder, since)

    def _add_missing_columns(self) -> None:
        table = DeltaTable(table_path(self.store, MANIFEST))
        names = {field.name for field in table.schema().fields}
        lacking = [f for f in delta_rs_schema(MANIFEST).fields if f.name not in names]
        if lacking:
            table.alter.add_columns(lacking, commit_properties=STRICT)

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """`action` as it is."""
        return action

    def count(self, rows: pa.Table) -> int:
        """How many rows there are."""
        return len(rows)

    @without_pandas()
    def among(self, rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
        """Those of `rows` whose key is one of `others`."""
        known = _counted(others, key)
        keys = zip(*(rows[name].to_pylist() for name in key), strict=True)
        return rows.filter(pa.array([one in known for one in keys], pa.bool_()))

    def same(self, rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> bool:
        """Whether both have the same values in these columns, each as many times."""
        return _counted(rows, columns) == _counted(others, columns)


def require_rows(rows: pa.Table, table: str) -> None:
    """SchemaError unless `rows` have the declared columns of `table`, and values where they must."""
    require_schema({field.name: type_name(field.type) for field in rows.schema}, table)
    without = [f.name for f in TABLES[table] if not f.nullable and rows[f.name].null_count]
    if without:
        raise SchemaError(f"table {table}: found null in {', '.join(without)}, which are declared NOT NULL")


def in_files(table: str, names: Sequence[str] | None = None) -> pa.Schema:
    """Columns as Parquet files have them: without comments, and without write_id, which is in their paths."""
    columns = PLAN_VERSIONS if table == MANIFEST else TABLES[table]
    return pa.schema([columns.field(name).remove_metadata() for name in names or columns.names])


def _once(write_id: str) -> CommitProperties:
    now = time.time_ns() // 1_000_000  # Spark forgets a transaction without a time
    return CommitProperties(
        app_transactions=[Transaction(application_id(write_id), TRANSACTION_VERSION, now)]
    )


def _manifest_rows(table: DeltaTable) -> pa.Table:
    known = [field.name for field in table.schema().fields if field.name in PLAN_VERSIONS.names]
    return to_table(table.scan(known))


def as_stored(rows: pa.Table, table: str) -> Iterator[pa.Table]:
    """Rows with the types of the store, some at a time: casting copies."""
    schema = in_files(table)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        yield rows.slice(start, _ROWS_AT_A_TIME).select(schema.names).cast(schema)


def _tagged(rows: pa.Table, table: str, write_id: str) -> Callable[[], pa.RecordBatchReader]:
    """Rows with their write_id, as often as they are asked for."""
    schema = in_files(table).append(pa.field(WRITE_ID, pa.string(), False))

    def batches() -> Iterator[pa.RecordBatch]:
        for some in as_stored(rows, table):
            for batch in some.to_batches():
                columns = [*batch.columns, pa.repeat(write_id, len(batch))]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return lambda: pa.RecordBatchReader.from_batches(schema, batches())


def _counted(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[object, ...]]:
    """Rows to how many of them there are."""
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
