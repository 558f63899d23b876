"""The Delta tables of a local store with DataFrames: workers write the files, this process commits them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.store.delta_rs_logs import DeltaRsLogs
from penstock.engine.store.is_local import local_folder
from penstock.engine.store.spark_rows import SparkRows, files_for
from penstock.engine.store.store_tables import WRITE_ID, append_side_by_side
from penstock.engine.store.write_file import make_log_durable
from penstock.engine.store.write_rows_in_workers import with_settings, write_packed, write_rows
from penstock.plans.frames.packed_blocks import PackedTables
from penstock.plans.tables import TABLES

_ROWS_TO_WORKERS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""With any other limit of bytes, Spark adds up the bytes of a batch again for each row, which takes longer
than putting the row into it. A batch of so few rows does not come near Arrow's limit of 2 GiB."""


@dataclass(frozen=True)
class LocalSparkTables(DeltaRsLogs, SparkRows):
    """StoreTables of DataFrames of `spark`, on a file system that its workers and this process share.

    Commits and all that concerns logs take no Spark. `packed`: tables of the plan to be written that come out
    of workers; they are written there, without becoming Spark's rows.
    """

    spark: SparkSession = field(kw_only=True)
    packed: Sequence[PackedTables] = field(default=(), kw_only=True)
    errors: tuple[type[Exception], ...] = (
        DeltaError,
        pa.ArrowException,
        OSError,
        PySparkException,
        Py4JJavaError,
    )

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

        `about_rows` decides how many files there are at most.
        """
        since, is_written = self.before_write(table, write_id)
        few = rows if about_rows is None else rows.coalesce(files_for(self.spark, about_rows))
        if is_written:
            return
        folder, of_write = local_folder(self.store, table), inside(write_id)
        os.makedirs(os.path.join(folder, of_write), exist_ok=True)
        written = with_settings(write_rows(few, table, folder, of_write), _ROWS_TO_WORKERS)
        self.commit_written(since, table, {row.path: row.rows for row in written.collect()}, write_id)

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows of one write, with the declared columns or some of them."""
        rows = self.spark.read.format("delta").load(local_folder(self.store, table))
        return rows.where(F.col(WRITE_ID) == write_id).select(list(columns or TABLES[table].names))

    def _append_packed(self, packed: PackedTables, write_id: str) -> None:
        before = {table: self.before_write(table, write_id) for table in packed.tables}
        unwritten = [table for table, (_, is_written) in before.items() if not is_written]
        folders = {table: local_folder(self.store, table) for table in unwritten}
        for folder in folders.values():
            os.makedirs(os.path.join(folder, inside(write_id)), exist_ok=True)
        written = write_packed(packed, folders, inside(write_id)).collect()
        files: dict[str, dict[str, int]] = {table: {} for table in sorted(unwritten)}
        for row in written:
            files[row.table][row.path] = row.rows
        for table, of_table in files.items():
            self.commit_written(before[table][0], table, of_table, write_id)

    def commit_written(self, since: int, table: str, files: Mapping[str, int], write_id: str) -> None:
        """Make files in the folder of the write a part of the table, which was at version `since`.

        `files`: as of commit_files. Others that are there are removed.
        """
        folder = local_folder(self.store, table)
        _remove_others(folder, inside(write_id), files)
        if files:
            self.commit_files(table, files, write_id)
        make_log_durable(folder, since)


def inside(write_id: str) -> str:
    """The subfolder of a table's folder that has the files of a write."""
    return f"{WRITE_ID}={write_id}"


def _remove_others(folder: str, of_write: str, files: Mapping[str, int]) -> None:
    """Remove what tasks that were run again have left, and the subfolder where there are no files."""
    for name in os.listdir(os.path.join(folder, of_write)):
        if os.path.join(of_write, name) not in files:
            os.unlink(os.path.join(folder, of_write, name))
    if not files:
        os.rmdir(os.path.join(folder, of_write))
