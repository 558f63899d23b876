"""Access the Delta tables of a store as DataFrames, on any file system that Spark can reach."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from delta.tables import DeltaTable
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.engine.machine.replace_file import make_durable
from penstock.engine.spark.shared_settings import shared_settings
from penstock.engine.store.data_files import make_log_durable, with_dictionary, without_dictionary
from penstock.engine.store.delta_rs_tables import DeltaRsLogs, DeltaRsTables
from penstock.engine.store.delta_table import create_table, open_table, to_table
from penstock.engine.store.store_location import MANIFEST, Location, locate
from penstock.engine.store.store_tables import (
    TRANSACTION_VERSION,
    WRITE_ID,
    WRITE_ID_COMMENT,
    DataFile,
    ManifestRead,
    ManifestRow,
    Result,
    StoreTables,
    append_side_by_side,
    application_id,
    delta_schema,
    partition_of,
    properties_of,
    retry,
    retry_conflicts,
    stored_columns,
)
from penstock.engine.store.write_rows_in_workers import with_settings, write_packed, write_rows
from penstock.plans.frames.packed_blocks import PackedTables
from penstock.plans.frames.spark_schemas import conform
from penstock.plans.tables import TABLES

# Rows that are DataFrames.


class SparkRows:
    """The operations of StoreTables on rows that are DataFrames of `spark`."""

    spark: SparkSession

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """Return `action` for another thread, with this thread's job group and local properties."""
        inherit: Any = inheritable_thread_target(self.spark)
        inherited: Callable[..., Result] = inherit(action)
        return inherited

    def count(self, rows: DataFrame) -> int:
        """Return the number of rows."""
        return rows.count()

    def among(self, rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
        """Return the part of `rows` whose key occurs in `others`."""
        return rows.join(others.select(*key), list(key), "left_semi")

    def same(self, rows: DataFrame, others: DataFrame, columns: Sequence[str]) -> bool:
        """Return whether both have the same values in these columns, each equally often."""
        chosen, other = rows.select(*columns), others.select(*columns)
        return chosen.exceptAll(other).isEmpty() and other.exceptAll(chosen).isEmpty()


def _files_for(spark: SparkSession, rows: int) -> int:
    """Return the number of files for that many rows, a multiple of the cores if it exceeds them."""
    files, cores = -(-rows // _ROWS_PER_FILE) or 1, spark.sparkContext.defaultParallelism
    return files if files <= cores else -(-files // cores) * cores


_ROWS_PER_FILE = 250_000


# Delta tables of a local store, from DataFrames: workers write the files, this process commits them.


_ROWS_TO_WORKERS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""With any other limit of bytes, Spark sums the bytes of a batch again for each row, which takes longer
than adding the row. A batch of this few rows stays far below Arrow's limit of 2 GiB."""


class LocalSparkTables(DeltaRsLogs, SparkRows):
    """StoreTables of DataFrames of `spark`, on a file system shared by its workers and this process.

    Commits and all operations on logs run without Spark. `packed`: tables of the plan to write that workers
    produce; they are written there, without becoming Spark's rows.
    """

    errors: tuple[type[Exception], ...] = (
        DeltaError,
        pa.ArrowException,
        OSError,
        PySparkException,
        Py4JJavaError,
    )

    def __init__(
        self, store: str | Location, *, spark: SparkSession, packed: Sequence[PackedTables] = ()
    ) -> None:
        super().__init__(store)
        self.spark = spark
        self.packed = packed

    def append_all(self, tables: Mapping[str, DataFrame], write_id: str, rows: Mapping[str, int]) -> None:
        """Append the rows of all `tables` under `write_id`. Raises SchemaError."""
        others = dict(tables)
        for packed in self.packed:
            wanted = packed.tables & others.keys()
            if wanted:
                self._append_packed(packed._replace(tables=wanted), write_id)
                others = {table: rows for table, rows in others.items() if table not in wanted}
        append_side_by_side(self, others, write_id, rows)

    def append(self, table: str, rows: DataFrame, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows` under `write_id` in one transaction. Raises SchemaError.

        `about_rows` limits the number of files.
        """
        since, is_written = self.before_write(table, write_id)
        few = rows if about_rows is None else rows.coalesce(_files_for(self.spark, about_rows))
        if is_written:
            return
        folder, inside = self.store.join(table), folder_of_write(write_id)
        os.makedirs(os.path.join(folder, inside), exist_ok=True)
        written = with_settings(write_rows(few, table, folder, inside), _ROWS_TO_WORKERS)
        self.commit_written(since, table, {row.path: row.rows for row in written.collect()}, write_id)

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> DataFrame:
        """Return the rows of one write, with the declared columns or some of them."""
        rows = self.spark.read.format("delta").load(self.store.join(table))
        return _declared(rows.where(F.col(WRITE_ID) == write_id), table, columns)

    def _append_packed(self, packed: PackedTables, write_id: str) -> None:
        before = {table: self.before_write(table, write_id) for table in packed.tables}
        unwritten = [table for table, (_, is_written) in before.items() if not is_written]
        folders = {table: self.store.join(table) for table in unwritten}
        for folder in folders.values():
            os.makedirs(os.path.join(folder, folder_of_write(write_id)), exist_ok=True)
        written = write_packed(packed, folders, folder_of_write(write_id)).collect()
        files: dict[str, dict[str, int]] = {table: {} for table in sorted(unwritten)}
        for row in written:
            files[row.table][row.path] = row.rows
        for table, of_table in files.items():
            self.commit_written(before[table][0], table, of_table, write_id)

    def write_files(
        self, tables: Mapping[str, DataFrame], packed: Sequence[PackedTables], write_id: str
    ) -> list[tuple[str, str, int]]:
        """Write the rows of `tables`; return (table, path, rows) for each file, for `commit_written`.

        `packed`: what workers make some of the tables of, as in this class. The folders of the write exist.
        """
        folders = {table: self.store.join(table) for table in tables}
        inside = folder_of_write(write_id)
        written: list[Row] = []
        for part in packed:
            wanted = {table: folders.pop(table) for table in part.tables & folders.keys()}
            written += write_packed(part, wanted, inside).collect()
        for table, folder in folders.items():
            rows = write_rows(tables[table], table, folder, inside)
            written += with_settings(rows, _ROWS_TO_WORKERS).collect()
        return [(row.table, row.path, row.rows) for row in written]

    def commit_written(self, since: int, table: str, files: Mapping[str, int], write_id: str) -> None:
        """Make files in the folder of the write a part of the table, which was at version `since`.

        `files`: as of commit_files. Others that are there are removed.
        """
        folder = self.store.join(table)
        _remove_others(folder, folder_of_write(write_id), files)
        if files:
            self.commit_files(table, files, write_id)
        make_log_durable(folder, since)


def folder_of_write(write_id: str) -> str:
    """The subfolder of a table's folder that has the files of a write."""
    return f"{WRITE_ID}={write_id}"


def _remove_others(folder: str, inside: str, files: Mapping[str, int]) -> None:
    """Remove leftover files of repeated tasks, and the subfolder if it is empty.

    A repeated task may still run: it removes its file itself when it is stopped, or leaves one later.
    """
    for name in os.listdir(os.path.join(folder, inside)):
        if os.path.join(inside, name) not in files:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, inside, name))
    if not files:
        with suppress(OSError):
            os.rmdir(os.path.join(folder, inside))


_ENCODINGS = {
    f"parquet.enable.dictionary#{name}": "false"
    for name in {name for columns in TABLES.values() for name in without_dictionary(columns)}
    - {path for columns in TABLES.values() for path in with_dictionary(columns)}
}
"""Settings of a session apply to all tables: a name has a dictionary if any table wants one for it."""

_CONFLICTS = (
    "ConcurrentModificationException",
    "ConcurrentAppendException",
    "ConcurrentWriteException",
    "ConcurrentTransactionException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
)


class SparkTables(SparkRows):
    """StoreTables of DataFrames of `spark`."""

    errors: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError, OSError)

    def __init__(self, spark: SparkSession, store: str | Location) -> None:
        self.spark = spark
        self.store = locate(store)

    @property
    def logs(self) -> StoreTables[Any]:
        """Return the same tables for reading their logs: for a local store through delta-rs."""
        return self if self.store.folder is None else DeltaRsTables(self.store)

    def is_conflict(self, error: Exception) -> bool:
        """Return whether Delta reports that a concurrent transaction was committed first."""
        text = f"{type(error).__name__} {error}"
        return any(name in text for name in _CONFLICTS)

    def has(self, table: str) -> bool:
        """Return whether the table exists."""
        return DeltaTable.isDeltaTable(self.spark, self.store.of_table(table).path)

    def create(self, table: str) -> None:
        """Create the table, empty, if it does not exist, and add missing columns to the manifest."""
        at = self.store.of_table(table)
        if at.folder is not None:
            # Spark cannot create a table where an earlier creation was cut off, such as by a full disk.
            create_table(at, table)
        elif not self.has(table):
            builder = DeltaTable.createIfNotExists(self.spark).location(at.path).addColumns(_schema(table))
            partition = partition_of(table)
            if partition is not None:
                builder = builder.partitionedBy(partition)
            for key, value in properties_of(table).items():
                builder = builder.property(key, value)
            # While another writer creates the table, Delta may find its folder, but no table in it yet.
            retry(
                builder.execute,
                f"creating {at}",
                self.errors,
                lambda error: self.is_conflict(error) or "DELTA_TABLE_NOT_FOUND" in str(error),
            )
        retry_conflicts(self, lambda: self._add_missing_columns(table), f"adding columns to {self.store}")

    def append_all(self, tables: Mapping[str, DataFrame], write_id: str, rows: Mapping[str, int]) -> None:
        """Append the rows of all `tables` under `write_id`, with the dictionaries of write_file.

        Raises SchemaError.
        """
        with shared_settings(self.spark, _ENCODINGS):
            append_side_by_side(self, tables, write_id, rows)

    def append(self, table: str, rows: DataFrame, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows` under `write_id` in one transaction. Raises SchemaError.

        `about_rows` limits the number of files.
        """
        at, checked = self.store.of_table(table), conform(rows, table)
        with _durable_commits(at):
            self.create(table)
            tagged = checked.select(
                "*", F.lit(write_id).alias(WRITE_ID, metadata={"comment": WRITE_ID_COMMENT})
            )
            few = tagged if about_rows is None else tagged.coalesce(_files_for(self.spark, about_rows))
            writer = (
                few.write.format("delta")
                .mode("append")
                .option("txnAppId", application_id(write_id))
                .option("txnVersion", TRANSACTION_VERSION)
            )
            retry_conflicts(self, lambda: writer.save(at.path), f"writing {at}")

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> DataFrame:
        """Return the rows of one write, with the declared columns or some of them."""
        rows = self._table(table).toDF()
        return _declared(rows.where(F.col(WRITE_ID) == write_id), table, columns)

    def delete(self, table: str, write_ids: Collection[str]) -> None:
        """Delete the rows of these writes in `table`."""
        if write_ids and self.has(table):
            target, at = self._table(table), self.store.of_table(table)
            with _durable_commits(at):
                retry_conflicts(
                    self,
                    lambda: target.delete(F.col(WRITE_ID).isin(*write_ids)),
                    f"deleting from {at}",
                )

    def write_ids(self, table: str) -> set[str]:
        """Return the writes that have files in `table` by its log; the files may no longer exist."""
        if not self.has(table):
            return set()
        written = self._log(table).select(F.col("partitionValues")[WRITE_ID].alias(WRITE_ID))
        return {row[WRITE_ID] for row in written.distinct().collect()}

    def listed_files(self, table: str, write_id: str) -> list[DataFile] | None:
        """Return a write's files in the table's log; None without a table."""
        if not self.has(table):
            return None
        rows = (
            self._log(table)
            .where(F.col("partitionValues")[WRITE_ID] == write_id)
            .select("path", F.get_json_object("stats", "$.numRecords").cast("long"), "size")
            .collect()
        )
        return [DataFile(table, unquote(path), count, size) for path, count, size in rows]

    def read_manifest(self) -> ManifestRead | None:
        """Return the current manifest, to which a row may be added; None if there is none."""
        if not self.has(MANIFEST):
            return None
        rows = self._table(MANIFEST).toDF()
        known = [name for name in stored_columns(MANIFEST).names if name in rows.columns]
        manifest = [row.asDict() for row in rows.select(known).collect()]

        def chosen(write_ids: Collection[str] | None) -> list[Mapping[str, Any]]:
            return [row for row in manifest if write_ids is None or row["write_id"] in write_ids]

        listed = [ManifestRow(row["version"], row["write_id"], row["state"]) for row in manifest]
        return ManifestRead(listed, chosen, None)

    def shared_manifest(self) -> ManifestRead | None:
        """Return the current manifest, which is not shared."""
        return self.read_manifest()

    def insert_version(self, row: Mapping[str, Any], seen: ManifestRead) -> None:
        """Merge a row into the manifest; Delta's isolation detects rows added after it was `seen`."""
        version_row = pa.Table.from_pylist([dict(row)], stored_columns(MANIFEST))
        source = self.spark.createDataFrame(version_row, _schema(MANIFEST))
        target = self._table(MANIFEST)
        taken = "m.write_id = s.write_id or m.version = s.version"
        with _durable_commits(self.store.of_table(MANIFEST)):
            target.alias("m").merge(source.alias("s"), taken).whenNotMatchedInsertAll().execute()

    def set_state(self, write_id: str, state: str) -> None:
        """Update the state of one write in the manifest."""
        with _durable_commits(self.store.of_table(MANIFEST)):
            self._table(MANIFEST).update(F.col("write_id") == write_id, {"state": F.lit(state)})

    def _table(self, table: str) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.store.of_table(table).path)

    def _log(self, table: str) -> DataFrame:
        """Return the current files of a table, one row each, with the columns of Delta's AddFile."""
        jvm: Any = self.spark._jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog
        snapshot = log.forTableWithSnapshot(self.spark._jsparkSession, self.store.of_table(table).path)
        return DataFrame(snapshot._2().allFiles().toDF(), self.spark)

    def _add_missing_columns(self, table: str) -> None:
        path = self.store.of_table(table).path
        known = self._table(table).toDF().columns
        for column in _schema(table).fields:
            if column.name not in known:
                kind, comment = column.dataType.simpleString(), column.metadata["comment"]
                name = "delta.`" + path.replace("`", "``") + "`"
                self.spark.sql(f"ALTER TABLE {name} ADD COLUMNS ({column.name} {kind} COMMENT '{comment}')")


def _declared(rows: DataFrame, table: str, columns: Sequence[str] | None) -> DataFrame:
    """Select declared columns, all by default; those that an earlier release did not write are null."""
    chosen = [
        F.col(name) if name in rows.columns else F.lit(None).cast(_schema(table)[name].dataType).alias(name)
        for name in columns or TABLES[table].names
    ]
    return rows.select(*chosen)


@cache
def _schema(table: str) -> StructType:
    return StructType.fromJson(delta_schema(stored_columns(table)))


# Durable commits of another process, such as the JVM.


@contextmanager
def _durable_commits(at: Location) -> Iterator[None]:
    """Sync files added to a local table inside the block, and then the log that names them."""
    folder = at.folder
    if folder is None:
        yield
        return
    since, before = _files(at)
    yield
    files = [os.path.join(folder, path) for path in _files(at)[1] - before]
    # Hadoop refuses a file whose checksums, in a .crc file next to it, are incomplete.
    sums = [os.path.join(os.path.dirname(file), f".{os.path.basename(file)}.crc") for file in files]
    make_durable([*files, *sums], below=folder)
    make_log_durable(folder, since)


def _files(at: Location) -> tuple[int, set[str]]:
    """Return the version and files of a table's log; version 0 and no files without a table."""
    delta_table = open_table(at)
    if delta_table is None:
        return 0, set()
    actions = to_table(delta_table.get_add_actions())
    paths = actions["path"].to_pylist() if len(actions) else []
    return delta_table.version(), {unquote(path) for path in paths}


# Choose how DataFrames are written to a store.


def tables_of_spark(
    spark: SparkSession, store: str | Location, packed: Sequence[PackedTables] = ()
) -> LocalSparkTables | SparkTables:
    """Return the tables of `store` for DataFrames; if it is local, Spark's workers write the files.

    `packed`: see LocalSparkTables.
    """
    at = locate(store)
    return SparkTables(spark, at) if at.folder is None else LocalSparkTables(at, spark=spark, packed=packed)
