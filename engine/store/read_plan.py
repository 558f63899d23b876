"""Read the tables of one version."""

from collections.abc import Sequence

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store.data_files import damaged
from engine.store.delta_tables import WRITE_ID, table_path
from engine.store.find_damage_on_spark import find_damage
from engine.store.is_local import is_local
from engine.store.plan_versions import PlanVersion, find_version
from engine.store.require_columns import require_columns_to_read
from engine.store.store_errors import store_errors
from plans.tables import TABLES


def read_plan(spark: SparkSession, store: str, version: int | None = None) -> dict[str, DataFrame]:
    """Table name to the rows of that version (default: the newest), with the columns of plans.tables.TABLES.

    Raises StoreError: not a store, no such version, a damaged one, columns of another
    version of Penstock.
    """
    found = find_version(spark, store, version)
    require_intact(spark, store, found, found.tables)
    if is_local(store):
        require_columns_to_read(store, found.tables)
    return {table: rows_of(spark, store, found, table) for table in found.tables}


def require_intact(spark: SparkSession, store: str, version: PlanVersion, tables: Sequence[str]) -> None:
    """StoreError unless these tables of the version are as they were written."""
    with store_errors(store, "reading"):
        damage = find_damage(spark, store, version, tables)
    if damage:
        raise damaged(store, version.version, damage)


def rows_of(spark: SparkSession, store: str, version: PlanVersion, table: str) -> DataFrame:
    """A table of a version that was found before and is intact."""
    rows = DeltaTable.forPath(spark, table_path(store, table)).toDF()
    return rows.where(F.col(WRITE_ID) == version.write_id).select(TABLES[table].names)
