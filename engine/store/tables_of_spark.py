"""How DataFrames get into a store."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from penstock.engine.store.is_local import is_local
from penstock.engine.store.local_spark_tables import LocalSparkTables
from penstock.engine.store.spark_tables import SparkTables
from penstock.plans.frames.packed_blocks import PackedTables


def tables_of_spark(
    spark: SparkSession, store: str, packed: Sequence[PackedTables] = ()
) -> LocalSparkTables | SparkTables:
    """The tables of `store` for DataFrames: by way of Spark's workers where it is local.

    `packed`: see LocalSparkTables.
    """
    if is_local(store):
        return LocalSparkTables(store, spark=spark, packed=packed)
    return SparkTables(spark, store)
