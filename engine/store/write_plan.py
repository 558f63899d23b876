"""Write the tables of one plan as a new version, or find that nothing has changed."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from math import ceil
from uuid import uuid4

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store.data_files import DataFile
from engine.store.delta_tables import WRITE_ID, append_rows, delete_rows, table_path
from engine.store.discard import remove_files, set_aside_unreadable
from engine.store.find_damage_on_spark import listed_files
from engine.store.is_local import is_local
from engine.store.listed_files import log_version, make_write_durable, recorded_files
from engine.store.plan_versions import PlanVersion, State, is_published, is_store, publish
from engine.store.require_target import require_target
from engine.store.store_errors import store_errors
from engine.store.unchanged_topologies import nothing_changed
from plans.errors import PenstockError, StoreError
from plans.tables import TABLES

ROWS_PER_FILE = 250_000
PARALLEL_WRITES = 4
"""Tables written side by side: the commits of small tables wait for the file system, not for the cores."""


def write_plan(
    spark: SparkSession,
    store: str,
    tables: Mapping[str, DataFrame],
    *,
    planner_version: str,
    options: Mapping[str, str],
    rows: Mapping[str, int] | None = None,
) -> int:
    """The number of the version that holds `tables` (name to DataFrame, as in plans.tables.TABLES).

    If the newest version was written by the same planner with the same options from the same topologies (by
    fingerprint) and has the same refusals, nothing is written and its number is returned. Else each table
    gets the rows in one transaction, and a row of the manifest makes them visible, all at once. `options`
    are what the plan depends on beside its input. `rows`: about how many rows a table has, where the caller
    knows; they decide how many files it gets at most.

    Of a local store, what was written is on disk before its version can be seen. A write that fails deletes
    its rows and files; one that is killed leaves rows that nobody reads and that
    `remove_unfinished` deletes. Raises StoreError (unknown table, no table topologies, given up while it
    ran, a path that is no place for a store), MachineError (no space, no permission) and SchemaError.
    """
    require_plan(tables)
    if is_store(spark, store):
        version = nothing_changed(spark, store, tables, planner_version=planner_version, options=options)
        if version is not None:
            return version
    require_target(store)
    write_id = new_write_id()
    with store_errors(store, "writing"):
        try:
            set_aside_unreadable(store, tables)
            _append_all(spark, store, tables, write_id, rows or {})
            candidate = PlanVersion(
                version=None,
                write_id=write_id,
                state=State.COMPLETE,
                published_at=datetime.now(UTC),
                planner_version=planner_version,
                options=options,
                tables=tuple(name for name in TABLES if name in tables),
                topologies=_count(spark, store, "topologies", write_id),
                rejected=_count(spark, store, "rejected", write_id) if "rejected" in tables else 0,
                files=_files(spark, store, tables, write_id),
            )
            return publish(spark, store, candidate)
        except BaseException:
            _discard(spark, store, tables, write_id)
            raise


def require_plan(tables: Collection[str]) -> None:
    """StoreError unless these are tables of a plan, with topologies among them."""
    unknown = sorted(set(tables) - set(TABLES))
    if unknown or "topologies" not in tables:
        raise StoreError(
            f"tables {', '.join(unknown)} are not part of a plan"
            if unknown
            else "a plan has the table topologies",
            f"a plan's tables are {', '.join(TABLES)}",
        )


def new_write_id() -> str:
    """Unique, and starts with the UTC time by which `remove_unfinished` tells how old the write is."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{uuid4().hex[:12]}"


def _append_all(
    spark: SparkSession, store: str, tables: Mapping[str, DataFrame], write_id: str, rows: Mapping[str, int]
) -> None:
    def append(table: str) -> None:
        files = ceil(rows[table] / ROWS_PER_FILE) or 1 if table in rows else None
        since = log_version(store, table)
        append_rows(spark, store, table, tables[table], write_id, files)
        make_write_durable(store, table, write_id, since)

    with ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="penstock-store") as pool:
        writes = [pool.submit(inheritable_thread_target(spark)(append), table) for table in tables]
    for write in writes:
        write.result()


def _files(spark: SparkSession, store: str, tables: Collection[str], write_id: str) -> tuple[DataFile, ...]:
    if is_local(store):
        return recorded_files(store, tables, write_id)
    return tuple(file for table in tables for file in listed_files(spark, store, table, write_id))


def _discard(spark: SparkSession, store: str, tables: Collection[str], write_id: str) -> None:
    """As without_spark.discard.discard."""
    with suppress(PenstockError, PySparkException, Py4JJavaError, OSError):
        if not is_published(spark, store, write_id):
            remove_files(store, tables, write_id)
            for table in tables:
                with suppress(PenstockError, PySparkException, Py4JJavaError):
                    delete_rows(spark, store, table, [write_id])


def _count(spark: SparkSession, store: str, table: str, write_id: str) -> int:
    rows = DeltaTable.forPath(spark, table_path(store, table)).toDF()
    return rows.where(F.col(WRITE_ID) == write_id).count()
