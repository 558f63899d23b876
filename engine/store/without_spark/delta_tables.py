"""The Delta tables of a store through delta-rs: making them, appending to them, reading them."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from engine.store.delta_tables import (
    ATTEMPTS,
    TABLE_PROPERTIES,
    TRANSACTION_VERSION,
    WRITE_ID,
    always_too_late,
    application_id,
    stored_schema,
    table_path,
)
from engine.store.is_local import is_local, local_folder
from engine.store.without_spark.write_file import add_action, make_log_durable, write_file
from plans.errors import SchemaError
from plans.tables import TABLES, require_schema
from plans.tables.type_names import type_name

STRICT = CommitProperties(max_commit_retries=0)
"""Commit as the version behind the one that was read, or raise CommitFailedError."""

_ROWS_AT_A_TIME = 250_000

Result = TypeVar("Result")


def open_table(path: str) -> DeltaTable | None:
    """The newest state of the table at `path`; None if there is none."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def create_table(
    path: str, schema: StructType, partition: str | None, properties: dict[str, str]
) -> DeltaTable:
    """The table at `path`, made empty unless it is there; another writer may be making it."""
    table = open_table(path)
    if table is not None:
        return table
    try:
        return DeltaTable.create(
            path,
            Schema.from_json(schema.json()),
            mode="error",
            partition_by=partition,
            configuration=properties,
            commit_properties=STRICT,
        )
    except DeltaError:
        table = open_table(path)
        if table is None:
            raise
        return table


def append_rows(store: str, table: str, rows: pa.Table, write_id: str) -> None:
    """Append `rows`, which must have the declared columns of `table`, under `write_id` in one transaction.

    Appending the same write_id again does nothing; nor do no rows, but the table is there afterwards. Raises
    SchemaError where the columns are not those declared.
    """
    require_rows(rows, table)
    if is_local(store):
        append_parts(store, table, [rows], write_id)
        return
    path = table_path(store, table)
    made = create_table(path, stored_schema(table), WRITE_ID, TABLE_PROPERTIES)
    if len(rows) and made.transaction_version(application_id(write_id)) is None:
        tagged = _tagged(rows, table, write_id)
        retry_conflicts(
            lambda: write_deltalake(path, tagged(), mode="append", commit_properties=_once(write_id)),
            f"writing {path}",
        )


def append_parts(store: str, table: str, parts: Iterable[pa.Table], write_id: str) -> int:
    """`append_rows` of all `parts` in turn, to a table of a local store; how many rows they are."""
    path, folder = table_path(store, table), local_folder(store, table)
    made = create_table(path, stored_schema(table), WRITE_ID, TABLE_PROPERTIES)
    before = made.version()
    rows = 0

    def stored_parts() -> Iterator[pa.Table]:
        nonlocal rows
        for part in parts:
            require_rows(part, table)
            rows += len(part)
            yield from _as_stored(part, table)

    if made.transaction_version(application_id(write_id)) is None:
        # Not write_deltalake: where the disk is full, it prints a Rust panic.
        todo = stored_parts()
        first = next(todo, None)
        if first is not None:
            inside, schema = f"{WRITE_ID}={write_id}", _without_write_id(table)
            file = write_file(folder, inside, chain([first], todo), schema)
            _commit_file(made, path, folder, file, rows, write_id)
    make_log_durable(folder, since=before)
    return rows


def _commit_file(made: DeltaTable, path: str, folder: str, file: str, rows: int, write_id: str) -> None:
    """Make a file that was written a part of the table, unless this write has one there."""
    action = add_action(folder, file, rows, {WRITE_ID: write_id})
    newest = [made]

    def commit() -> None:
        delta = newest.pop() if newest else DeltaTable(path)
        if delta.transaction_version(application_id(write_id)) is None:
            delta.create_write_transaction(
                [action], "append", delta.schema(), [WRITE_ID], commit_properties=_once(write_id)
            )

    retry_conflicts(commit, f"writing {path}")


def _once(write_id: str) -> CommitProperties:
    now = time.time_ns() // 1_000_000  # Spark forgets a transaction without a time
    return CommitProperties(
        app_transactions=[Transaction(application_id(write_id), TRANSACTION_VERSION, now)]
    )


def read_rows(store: str, table: str, write_id: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of one write, with the declared columns of `table` or those of `columns`.

    As everything Delta stores, elements of lists, maps and structs are nullable.
    """
    names = list(columns or TABLES[table].names)
    found = to_table(DeltaTable(table_path(store, table)).scan(names, f"{WRITE_ID} = '{write_id}'"))
    return found.cast(pa.schema([stored(table).field(name) for name in names]))


def to_table(stream: Any) -> pa.Table:
    """What delta-rs gives, as a table; pa.table would do, but it imports pandas."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def delete_rows(store: str, table: str, write_id: str) -> None:
    """Delete what a write left in `table`; whole partitions, so no file is rewritten."""
    path = table_path(store, table)
    if open_table(path) is not None:
        retry_conflicts(
            lambda: DeltaTable(path).delete(f"{WRITE_ID} = '{write_id}'"), f"deleting from {path}"
        )


def require_rows(rows: pa.Table, table: str) -> None:
    """SchemaError unless `rows` have the declared columns of `table`, and values where they must."""
    require_schema({field.name: type_name(field.type) for field in rows.schema}, table)
    without = [f.name for f in TABLES[table] if not f.nullable and rows[f.name].null_count]
    if without:
        raise SchemaError(f"table {table}: found null in {', '.join(without)}, which are declared NOT NULL")


@cache
def stored(table: str) -> pa.Schema:
    """The Arrow schema of a table as it is stored, write_id included."""
    return to_arrow_schema(stored_schema(table), timezone="UTC")


def _without_write_id(table: str) -> pa.Schema:
    return pa.schema([field for field in stored(table) if field.name != WRITE_ID])


def _as_stored(rows: pa.Table, table: str) -> Iterator[pa.Table]:
    """Rows with the types of the store, some at a time: casting copies."""
    schema = _without_write_id(table)
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        yield rows.slice(start, _ROWS_AT_A_TIME).select(schema.names).cast(schema)


def _tagged(rows: pa.Table, table: str, write_id: str) -> Callable[[], pa.RecordBatchReader]:
    """Rows with their write_id, as often as they are asked for."""

    def batches() -> Iterator[pa.RecordBatch]:
        for some in _as_stored(rows, table):
            for batch in some.to_batches():
                columns = [*batch.columns, pa.repeat(write_id, len(batch))]
                yield pa.RecordBatch.from_arrays(columns, schema=stored(table))

    return lambda: pa.RecordBatchReader.from_batches(stored(table), batches())


def retry_conflicts(action: Callable[[], Result], doing: str) -> Result:
    """`action`, again while a concurrent transaction wins; StoreError after ATTEMPTS."""
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except CommitFailedError:
            time.sleep(random.uniform(0.005, 0.03) * min(attempt + 1, 10))
    raise always_too_late(doing)
