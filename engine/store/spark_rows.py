"""DataFrames as the rows of a store."""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.store.store_tables import Result


class SparkRows:
    """What StoreTables does with rows that are DataFrames of `spark`."""

    spark: SparkSession

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """`action` with the job group and other local properties of the thread that asks."""
        inherit: Any = inheritable_thread_target(self.spark)
        inherited: Callable[..., Result] = inherit(action)
        return inherited

    def count(self, rows: DataFrame) -> int:
        """How many rows there are."""
        return rows.count()

    def among(self, rows: DataFrame, others: DataFrame, key: Sequence[str]) -> DataFrame:
        """Those of `rows` whose key is one of `others`."""
        return rows.join(others.select(*key), list(key), "left_semi")

    def same(self, rows: DataFrame, others: DataFrame, columns: Sequence[str]) -> bool:
        """Whether both have the same values in these columns, each as many times."""
        one, other = rows.select(*columns), others.select(*columns)
        return one.exceptAll(other).isEmpty() and other.exceptAll(one).isEmpty()


def files_for(spark: SparkSession, rows: int) -> int:
    """How many files that many rows go to: if each core writes several, all of them write as many."""
    files, cores = -(-rows // ROWS_PER_FILE) or 1, spark.sparkContext.defaultParallelism
    return files if files <= cores else -(-files // cores) * cores


ROWS_PER_FILE = 250_000
