"""Set Spark options that planning relies on, for as long as it runs."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import ceil

from pyspark.sql import SparkSession

from penstock.engine.machine.available_memory import memory_bytes
from penstock.engine.planning.planners import Planner
from penstock.engine.spark.session import cores_of
from penstock.engine.spark.shared_settings import scoped_settings
from penstock.engine.spark.spark_memory_estimate import heap_mebibytes
from penstock.plans.frames.packed_blocks import ROWS_PER_BLOCK

ROWS_PER_PARTITION = 250_000
ROWS_OF_ONE_PARTITION = 10_000
"""Below this, the rows take less time than the tasks of a second partition would."""
MOST_PARTITIONS = 4_096
ROWS_OF_A_BLOCK = 65_536
"""Consecutive numbers of nodes or vertices that are packed together for walks over whole topologies."""
ARROW_ROWS_PER_BATCH = 131_072

_TASKS_THAT_READ = "spark.sql.files.minPartitionNum"
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For few rows: Spark has many classes to compile, and a session that was not configured for them
caches 100 and compiles the others again for each plan."""


_EQUAL_ENOUGH = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
"""A task that runs again, because an executor was lost, packs the same rows into other bytes: it reads its
input in another order, and names its files anew. By default Spark would end the job for that."""


_SHORT_RUN_OPTIONS = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Java's second compiler takes longer than it saves."""


_SHARE_OF_THE_HEAP = 1 / 6
"""Of this machine's memory, for a JVM that only moves rows of giants: sorted rows go to disk, and the worker
that walks over a giant needs what the JVM does not have."""

_LEAST_HEAP_MEBIBYTES = 2_048


def settings_for_planner(planner: Planner) -> dict[str, str]:
    """Return the start settings of the JVM of a local Spark for a process that only plans.

    If topologies are planned whole, Python workers do the work.
    """
    if planner in (Planner.COLUMNAR, Planner.WORKERS):
        return dict(_SHORT_RUN_OPTIONS)
    heap = max(_LEAST_HEAP_MEBIBYTES, int(memory_bytes() * _SHARE_OF_THE_HEAP) // 2**20)
    return {"spark.driver.memory": f"{min(heap, heap_mebibytes())}m"}


def partitions_for(spark: SparkSession, rows: int) -> int:
    """Return the number of partitions for that many rows.

    One if they are few; else two rounds of all cores, and more if partitions would grow too large. Rounds are
    whole: one task beyond a multiple of the cores leaves the others idle in each stage.
    """
    if rows <= ROWS_OF_ONE_PARTITION:
        return 1
    cores = cores_of(spark)
    rounds = max(2, ceil(rows / ROWS_PER_PARTITION / cores))
    return min(MOST_PARTITIONS, rounds * cores)


def reading_settings(spark: SparkSession, partitions: int) -> AbstractContextManager[None]:
    """Make Spark read through that many tasks inside the block, and restore the settings afterwards.

    This matters for few large files, and for exchanges: an unconfigured session takes 200 tasks for each, or
    400.
    """
    return scoped_settings(spark, _settings_of_tasks(partitions))


def interpreted(spark: SparkSession) -> AbstractContextManager[None]:
    """Make Spark interpret expressions inside the block: to compile them takes longer if rows are few."""
    return scoped_settings(spark, _INTERPRETED)


def _settings_of_tasks(partitions: int) -> dict[str, str]:
    wanted = {_TASKS_THAT_READ: str(partitions), "spark.sql.shuffle.partitions": str(partitions)}
    return wanted if partitions > 1 else wanted | _INTERPRETED


@contextmanager
def planning_settings(
    spark: SparkSession, partitions: int, rows_per_block: int | None = None
) -> Iterator[None]:
    """Set the options that planning needs on `spark`, and restore the caller's afterwards.

    `rows_per_block` is for topologies larger than a partition, whose rows are kept on disk, and walked in
    blocks (see plans.frames.packed_blocks).

    Adaptive execution would change the numbers of partitions between passes, and with them which rows stay
    local.
    """
    wanted = {
        **_settings_of_tasks(partitions),
        **_EQUAL_ENOUGH,
        "spark.sql.adaptive.enabled": "false",
        # A broadcast may have to wait for the step before it without a limit.
        "spark.sql.broadcastTimeout": str(24 * 60 * 60),
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.unionOutputPartitioning": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS_PER_BATCH),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(ROWS_PER_PARTITION),
    }
    if rows_per_block is not None:
        wanted[ROWS_PER_BLOCK] = str(rows_per_block)
    with scoped_settings(spark, wanted):
        yield
