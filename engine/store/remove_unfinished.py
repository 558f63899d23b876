"""Delete what killed writes and interrupted drops have left in a store."""

from datetime import UTC, datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from engine.store.delta_tables import WRITE_ID, delete_rows, retry_conflicts, table_path
from engine.store.find_damage_on_spark import log_of
from engine.store.newest_version import require_whole
from engine.store.plan_versions import PlanVersion, State, all_writes, insert
from plans.tables import TABLES

OLD = timedelta(days=7)


def remove_unfinished(spark: SparkSession, store: str, older_than: timedelta = OLD) -> list[str]:
    """The write_ids whose rows were deleted: dropped versions, and writes begun before `older_than` ago.

    A write that is still running is never half-deleted: it is first marked abandoned in the manifest, and if
    it finishes after all, it is told so (StoreError) instead of being published. A write that publishes
    first is left alone. Younger writes are not touched. Raises StoreError where there is no store, or its
    manifest has lost a version, whose rows would be taken for unfinished.
    """
    before = datetime.now(UTC) - older_than
    known = {v.write_id for v in require_whole(store, all_writes(spark, store))}
    found = {table: _write_ids(spark, store, table) for table in TABLES}
    for write_id in sorted(set().union(*found.values()) - known):
        if _started(write_id) < before:
            _abandon(spark, store, write_id)
    dead = {v.write_id for v in all_writes(spark, store) if v.state != State.COMPLETE}
    for table, write_ids in found.items():
        delete_rows(spark, store, table, sorted(write_ids & dead))
    return sorted(dead & set().union(*found.values()))


def _write_ids(spark: SparkSession, store: str, table: str) -> set[str]:
    path = table_path(store, table)
    if not DeltaTable.isDeltaTable(spark, path):
        return set()
    # Of the log: of a write on a full disk, files may be gone that it lists.
    written = log_of(spark, path).select(F.col("partitionValues")[WRITE_ID].alias(WRITE_ID))
    return {row[WRITE_ID] for row in written.distinct().collect()}


def _started(write_id: str) -> datetime:
    return datetime.strptime(write_id.rsplit("-", 1)[0], "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)


def _abandon(spark: SparkSession, store: str, write_id: str) -> None:
    tombstone = PlanVersion(None, write_id, State.ABANDONED, datetime.now(UTC), None, {}, (), 0, 0)
    retry_conflicts(
        lambda: insert(spark, store, tombstone, None, "m.write_id = s.write_id"), f"abandoning {write_id}"
    )
