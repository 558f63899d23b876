"""Where tables of a version on a remote file system are not as they were written, as their logs tell."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store import find_damage as local
from engine.store.data_files import Damage, DataFile, compare_files, miscounted
from engine.store.delta_tables import WRITE_ID, table_path
from engine.store.is_local import is_local
from engine.store.plan_versions import PlanVersion


def find_damage(spark: SparkSession, store: str, version: PlanVersion, tables: Sequence[str]) -> list[Damage]:
    """As engine.store.find_damage; bytes only of local stores: other file
    systems have checksums of their own."""
    if is_local(store):
        return local.find_damage(store, version, tables)
    return [damage for table in tables for damage in _damage_of_table(spark, store, version, table)]


def _damage_of_table(spark: SparkSession, store: str, version: PlanVersion, table: str) -> list[Damage]:
    path = table_path(store, table)
    if not DeltaTable.isDeltaTable(spark, path):
        return [Damage(table, None, "the table is missing")]
    listed = listed_files(spark, store, table, version.write_id)
    recorded = version.files_of(table)
    return (
        miscounted(table, version.rows_of(table), listed)
        if recorded is None
        else compare_files(table, recorded, listed)
    )


def listed_files(spark: SparkSession, store: str, table: str, write_id: str) -> list[DataFile]:
    """The files of a write that the table's Delta log lists."""
    rows = (
        log_of(spark, table_path(store, table))
        .where(F.col("partitionValues")[WRITE_ID] == write_id)
        .select("path", F.get_json_object("stats", "$.numRecords").cast("long"), "size")
        .collect()
    )
    return [DataFile(table, unquote(path), count, size) for path, count, size in rows]


def log_of(spark: SparkSession, path: str) -> DataFrame:
    """The files that are part of a Delta table now, one row for each, with the columns of Delta's AddFile."""
    jvm: Any = spark._jvm
    found = jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(spark._jsparkSession, path)
    return DataFrame(found._2().allFiles().toDF(), spark)
