"""Spark settings that planning relies on, for as long as it runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

ROWS_PER_PARTITION = 250_000
MOST_PARTITIONS = 4_096
ARROW_ROWS_PER_BATCH = 131_072


def partitions_for(spark: SparkSession, rows: int) -> int:
    """How many ways to partition that many rows: two rounds of all cores, more where partitions got large."""
    cores = spark.sparkContext.defaultParallelism
    return min(MOST_PARTITIONS, max(2 * cores, -(-rows // ROWS_PER_PARTITION)))


@contextmanager
def planning_settings(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Sets what the passes need on `spark` and puts back what was there: a caller's session may differ.

    Adaptive execution would change partition counts between passes, and with them what stays local.
    """
    wanted = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.unionOutputPartitioning": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS_PER_BATCH),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(ROWS_PER_PARTITION),
    }
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
