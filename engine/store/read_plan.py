"""Read the tables of one version."""

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store.delta_tables import WRITE_ID, table_path
from engine.store.plan_versions import PlanVersion, find_version
from plans.schema import TABLES


def read_plan(spark: SparkSession, store: str, version: int | None = None) -> dict[str, DataFrame]:
    """Table name to the rows of that version (default: the newest), with the columns of plans.schema.TABLES.

    Raises StoreError: not a store, no such version.
    """
    return tables_of(spark, store, find_version(spark, store, version))


def tables_of(spark: SparkSession, store: str, version: PlanVersion) -> dict[str, DataFrame]:
    """The tables of a version that was found before."""
    return {
        table: DeltaTable.forPath(spark, table_path(store, table))
        .toDF()
        .where(F.col(WRITE_ID) == version.write_id)
        .select(TABLES[table].names)
        for table in version.tables
    }
