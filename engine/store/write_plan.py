"""Write the tables of one plan as a new version, or find that nothing has changed."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from math import ceil
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store.delta_tables import WRITE_ID, append_rows, delete_rows, table_path
from engine.store.plan_versions import PlanVersion, State, is_store, publish
from engine.store.unchanged_topologies import nothing_changed
from plans.errors import PenstockError, StoreError
from plans.schema import TABLES

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
    """The number of the version that holds `tables` (name to DataFrame, as in plans.schema.TABLES).

    If the newest version was written by the same planner with the same options from the same topologies (by
    fingerprint) and has the same refusals, nothing is written and its number is returned. Else each table
    gets the rows in one transaction, and a row of the manifest makes them visible, all at once. `options`
    are what the plan depends on beside its input. `rows`: about how many rows a table has, where the caller
    knows; they decide how many files it gets at most.

    A write that fails deletes its rows; one that is killed leaves rows that nobody reads and that
    `remove_unfinished` deletes. Raises StoreError (unknown table, no table topologies, given up while it
    ran) and SchemaError.
    """
    require_plan(tables)
    if is_store(spark, store):
        version = nothing_changed(spark, store, tables, planner_version=planner_version, options=options)
        if version is not None:
            return version
    write_id = new_write_id()
    try:
        _append_all(spark, store, tables, write_id, rows or {})
        counts = {t: _count(spark, store, t, write_id) for t in ("topologies", "rejected") if t in tables}
    except Exception:
        with suppress(PenstockError, PySparkException):
            for table in tables:
                delete_rows(spark, store, table, [write_id])
        raise
    candidate = PlanVersion(
        version=None,
        write_id=write_id,
        state=State.COMPLETE,
        published_at=datetime.now(UTC),
        planner_version=planner_version,
        options=options,
        tables=tuple(name for name in TABLES if name in tables),
        topologies=counts["topologies"],
        rejected=counts.get("rejected", 0),
    )
    return publish(spark, store, candidate)


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
        append_rows(spark, store, table, tables[table], write_id, files)

    with ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="penstock-store") as pool:
        writes = [pool.submit(inheritable_thread_target(spark)(append), table) for table in tables]
    for write in writes:
        write.result()


def _count(spark: SparkSession, store: str, table: str, write_id: str) -> int:
    rows = DeltaTable.forPath(spark, table_path(store, table)).toDF()
    return rows.where(F.col(WRITE_ID) == write_id).count()
