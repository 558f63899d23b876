"""The tables of a store: their columns, the manifest's rows, and the operations that a library must have."""

import random
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa

from penstock.engine.store.store_location import MANIFEST, Location
from penstock.plans.errors import SchemaError, StoreError
from penstock.plans.tables import TABLES, require_schema
from penstock.plans.tables.column_types import (
    BOOL,
    COMMENT,
    DOUBLE,
    INT,
    LONG,
    STR,
    STRINGS,
    TIMESTAMP,
    list_of,
    map_of,
    table,
    type_name,
)

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


class VersionState(StrEnum):
    """States of a write."""

    COMPLETE = "complete"  #: readable
    DROPPED = "dropped"  #: was readable; its row stays, so that no number is used twice
    ABANDONED = "abandoned"  #: given up by `remove_unfinished`; can never be published


class DataFile(NamedTuple):
    """A Parquet file of a write.

    `path` is relative to the table's folder, not percent-encoded; `checksum` is the file's XXH3-128 as 32 hex
    digits, None in stores that are not on a local file system: object stores and HDFS have checksums of
    their own.
    """

    table: str
    path: str
    rows: int | None
    bytes: int
    checksum: str | None = None


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


# The tables of a store in Delta: columns, partitioning and table properties.
#
# Delta and Spark serialise a schema to the same JSON, so both adapters make their schemas from it.


WRITE_ID = "write_id"
"""The column by which tables of plans are partitioned: the write that made a row."""

WRITE_ID_COMMENT = "the write that made the row; see plan_versions"

_SIMPLE = {
    BOOL: "boolean",
    DOUBLE: "double",
    INT: "integer",
    LONG: "long",
    STR: "string",
    TIMESTAMP: "timestamp",
}


@cache
def stored_columns(table: str) -> pa.Schema:
    """Return a table's declared columns, and `write_id` in tables of plans; NOT NULL at top level only."""
    if table == MANIFEST:
        return PLAN_VERSIONS
    return TABLES[table].append(pa.field(WRITE_ID, STR, False, {COMMENT: WRITE_ID_COMMENT.encode()}))


def delta_schema(columns: pa.Schema) -> dict[str, Any]:
    """Return columns as Delta's and Spark's JSON. Source: Delta's protocol, "Schema Serialization Format"."""
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _delta_type(field.type),
                "nullable": field.nullable,
                "metadata": {"comment": field.metadata[COMMENT].decode()} if field.metadata else {},
            }
            for field in columns
        ],
    }


def _delta_type(kind: pa.DataType) -> str | dict[str, Any]:
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _delta_type(kind.key_type),
            "valueType": _delta_type(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _delta_type(kind.value_type), "containsNull": True}
    if pa.types.is_struct(kind):
        return delta_schema(pa.schema(list(kind)))
    return _SIMPLE[kind]


def partition_of(table: str) -> str | None:
    """Return the column by which a table is partitioned."""
    return None if table == MANIFEST else WRITE_ID


def properties_of(table: str) -> dict[str, str]:
    """Return the Delta properties of a new table."""
    if table == MANIFEST:
        # Only with Serializable do two inserts of the same number conflict in Delta.
        return {"delta.isolationLevel": "Serializable"}
    # A write_id is retried only while its run lives; Delta need not remember it longer.
    return {"delta.setTransactionRetentionDuration": "interval 7 days"}


def in_files(table: str, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the columns of Parquet files, without comments and write_id, which is in their paths."""
    columns = PLAN_VERSIONS if table == MANIFEST else TABLES[table]
    return pa.schema([columns.field(name).remove_metadata() for name in names or columns.names])


ATTEMPTS = 30
TRANSACTION_VERSION = 1
"""The version of a write's transaction under `application_id`: each write has one per table."""

Rows = TypeVar("Rows")
Result = TypeVar("Result")


class ManifestRead(NamedTuple):
    """The writes that a manifest lists, and the state of the table from which they were read.

    `rows` reads whole rows, with the columns that the manifest has: rows of some write_ids, or all
    (None). A row names the files of its version, so reading all of them is slow in a store of many versions.
    """

    listed: list[ManifestRow]
    rows: Callable[[Collection[str] | None], list[Mapping[str, Any]]]
    state: Any


class Commits(Protocol):
    """How a library reports that it could not commit."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of the library."""

    def is_conflict(self, error: Exception) -> bool:
        """Return whether one of `errors` reports that another transaction was committed first."""


class StoreTables(Commits, Protocol[Rows]):
    """The Delta tables of one store, whose rows are of the type Rows.

    `DeltaRsTables` reads and writes Arrow tables in this process, `SparkTables` DataFrames anywhere, and
    `LocalSparkTables` DataFrames on a file system shared by Spark's workers and this process.
    Each reads data written by the others. A commit to a local store is on disk when a method returns.
    """

    @property
    def store(self) -> Location:
        """Return where the store is."""

    @property
    def logs(self) -> "StoreTables[Any]":
        """Return the same tables for reading their logs: for a local store through delta-rs.

        A Spark job takes longer.
        """

    def has(self, table: str) -> bool:
        """Return whether there is such a Delta table."""

    def create(self, table: str) -> None:
        """Create the table, empty, if it does not exist, and add missing columns to the manifest.

        Another writer may do the same at the same time.
        """

    def append(self, table: str, rows: Rows, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows`, which must have the declared columns, under `write_id` in one transaction.

        Appending the same write_id again does nothing. If `rows` are empty, the table stays without rows of
        this write. `about_rows`: their estimated number, if the caller knows. Raises SchemaError if the
        columns differ from the declared ones.
        """

    def append_all(self, tables: Mapping[str, Rows], write_id: str, rows: Mapping[str, int]) -> None:
        """`append` all tables of a plan, with estimated `rows` of some of them."""

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> Rows:
        """Return the rows of one write, with the declared columns or some of them."""

    def delete(self, table: str, write_ids: Collection[str]) -> None:
        """Delete the rows of these writes in `table`, as whole partitions, so that no file is rewritten."""

    def write_ids(self, table: str) -> set[str]:
        """Return the writes that have files in `table`, according to its log; none without a table."""

    def listed_files(self, table: str, write_id: str) -> list[DataFile] | None:
        """Return a write's files in the table's log, without checksums; None without a table."""

    def read_manifest(self) -> ManifestRead | None:
        """Return the current manifest, to which a row may be added; None if there is none."""

    def shared_manifest(self) -> ManifestRead | None:
        """Return the current manifest; inside `shared_tables`, the object may be shared."""

    def insert_version(self, row: Mapping[str, Any], seen: ManifestRead) -> None:
        """Insert a row of the manifest, unless another row has its write_id or its version number.

        May raise a conflict if the manifest has changed since it was `seen`.
        """

    def set_state(self, write_id: str, state: str) -> None:
        """Change the state of one write in the manifest. May raise a conflict."""

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """Return `action` prepared to be called in another thread."""

    def count(self, rows: Rows) -> int:
        """Return the number of rows."""

    def among(self, rows: Rows, others: Rows, key: Sequence[str]) -> Rows:
        """Return the part of `rows` whose key occurs in `others`."""

    def same(self, rows: Rows, others: Rows, columns: Sequence[str]) -> bool:
        """Return whether both have the same values in these columns, each equally often."""


def application_id(write_id: str) -> str:
    """Return the id under which Delta remembers a table's part of a write."""
    return f"penstock-{write_id}"


def retry_conflicts(tables: Commits, action: Callable[[], Result], doing: str) -> Result:
    """Call `action`, repeatedly while a concurrent transaction wins; StoreError after ATTEMPTS."""
    return retry(action, doing, tables.errors, tables.is_conflict)


def retry(
    action: Callable[[], Result],
    doing: str,
    errors: tuple[type[Exception], ...],
    passes: Callable[[Exception], bool],
) -> Result:
    """Call `action`, again after each of `errors` for which `passes` is true; StoreError after ATTEMPTS."""
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except errors as error:
            if not passes(error):
                raise
            time.sleep(random.uniform(0.005, 0.03) * min(attempt + 1, 10))
    raise StoreError(
        f"{doing}: another writer was quicker {ATTEMPTS} times",
        "try again when fewer runs write to this store",
    )


# Append several tables of a write at a time.


PARALLEL_WRITES = 4
"""Tables written in parallel: commits of small tables wait for the file system, not for the cores."""


def append_side_by_side(
    delta: StoreTables[Rows], tables: Mapping[str, Rows], write_id: str, rows: Mapping[str, int]
) -> None:
    """`delta.append` all tables; raise the first error after all have ended."""
    with ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="penstock-store") as pool:
        writes = [
            pool.submit(delta.in_thread(delta.append), table, table_rows, write_id, rows.get(table))
            for table, table_rows in tables.items()
        ]
    for write in writes:
        write.result()


# Check rows for a table of a store.


def require_rows(rows: pa.Table, table: str) -> None:
    """Raise SchemaError unless `rows` have the columns of `table`, and no null in NOT NULL columns."""
    require_schema({field.name: type_name(field.type) for field in rows.schema}, table)
    without = [f.name for f in TABLES[table] if not f.nullable and rows[f.name].null_count]
    if without:
        raise SchemaError(f"table {table}: {', '.join(without)} must not be null")
