"""Write a plan of Spark to a store, a giant from its workers, and keep checkpoints in a folder."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.engine.store.delta_table import set_aside_unreadable
from penstock.engine.store.plan_versions import start_manifest
from penstock.engine.store.spark_tables import LocalSparkTables, folder_of_write, tables_of_spark
from penstock.engine.store.store_location import locate, store_errors
from penstock.engine.store.store_tables import PARALLEL_WRITES, DataFile, VersionNumber
from penstock.engine.store.write_plan import WriteInProgress, discard, new_write_id, require_target
from penstock.engine.store.write_rows_in_workers import write_part
from penstock.plans.blocks.giant import Write
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.spark_schemas import unless_ended
from penstock.plans.tables import TABLES


class WriteLayers:
    """A write to a store, to which workers may write the tables of a giant (see plan_giants.Store).

    Nothing can be read before `publish`; every other end is `discard`.
    """

    def __init__(self, spark: SparkSession, store: str, options: Mapping[str, str]) -> None:
        """Take the `options` to record."""
        self._spark = spark
        self._store = locate(store)
        self._options = options
        self._write_id = ""
        self._started_tables: set[str] = set()
        self._written: dict[str, list[DataFile]] = {}
        self._before: dict[str, int] = {}

    def writer(self, tables: Collection[str]) -> Write | None:
        """As plan_giants.Store: for a local store. Raises StoreError and MachineError."""
        if self._store.folder is None:
            return None
        with store_errors(self._store, "writing"):
            delta = LocalSparkTables(self._store, spark=self._spark)
            require_target(self._store)
            start_manifest(delta)
            set_aside_unreadable(self._store, TABLES)
            self._write_id, self._started_tables = new_write_id(), set(tables)
            self._before = {table: delta.before_write(table, self._write_id)[0] for table in tables}
            folders = {table: self._store.join(table) for table in tables}
            for folder in folders.values():
                os.makedirs(os.path.join(folder, folder_of_write(self._write_id)), exist_ok=True)
        return partial(write_part, folders, folder_of_write(self._write_id))

    def write(self, plans: Sequence[PlanResult]) -> list[tuple[str, str, int]]:
        """Write plans beside giants, after `writer`; return (table, path, rows) for `take`.

        Raises StoreError, MachineError and SchemaError.
        """
        delta = LocalSparkTables(self._store, spark=self._spark)
        with store_errors(self._store, "writing"):
            return [
                file for plan in plans for file in delta.write_files(plan.tables, plan.packed, self._write_id)
            ]

    def take(self, files: Sequence[tuple[str, str, int]]) -> None:
        """As plan_giants.Store. Raises StoreError and MachineError."""
        delta = LocalSparkTables(self._store, spark=self._spark)
        by_table: dict[str, dict[str, int]] = {table: {} for table in self._started_tables}
        for table, path, rows in files:
            by_table[table][path] = rows

        def commit(table: str) -> list[DataFile]:
            delta.commit_written(self._before[table], table, by_table[table], self._write_id)
            return delta.listed_files(table, self._write_id) or []

        with store_errors(self._store, "writing"), ThreadPoolExecutor(PARALLEL_WRITES) as pool:
            self._written = dict(zip(by_table, pool.map(commit, by_table), strict=True))

    def drop(self) -> None:
        """As plan_giants.Store."""
        self.discard()
        self._started_tables, self._written = set(), {}

    def publish(self, planned: PlanResult) -> VersionNumber:
        """Return the version that holds the tables of `planned`; see PlanResult.write."""
        files = [file for table_files in self._written.values() for file in table_files]
        in_progress = WriteInProgress(self._write_id, [*self._written], files) if self._written else None
        return planned.write(self._store, self._options, in_progress)

    def discard(self) -> None:
        """Delete the written files, unless they were published."""
        if self._started_tables:
            with suppress(Py4JError):  # Spark may have ended
                discard(tables_of_spark(self._spark, self._store), self._started_tables, self._write_id)


# Checkpoints: tables between passes, in a folder that every executor reaches.


@contextmanager
def checkpoints_in(spark: SparkSession, folder: str | None) -> Iterator[None]:
    """Inside the block, `plans.frames.spark_schemas` writes checkpoints to a new folder in `folder`.

    With None, tables stay on the executors, or in the context's checkpoint directory if it has one. Raises
    ConfigurationError if the folder cannot be created.
    """
    if folder is None:
        yield
        return
    context: Any = spark.sparkContext
    scala_context, jvm = context._jsc.sc(), context._jvm
    before = scala_context.checkpointDir()
    try:
        context.setCheckpointDir(folder)
    except Py4JError as error:
        raise ConfigurationError(
            f"--checkpoint-dir: {describe_spark_error(error)}", "a folder that all executors can write to"
        ) from None
    path = jvm.org.apache.hadoop.fs.Path(context.getCheckpointDir())
    try:
        yield
    finally:
        with unless_ended(spark):
            getattr(scala_context, "checkpointDir_$eq")(before)
            path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)
