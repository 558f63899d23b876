"""Spark settings that planning relies on, for as long as it runs."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import ceil

from pyspark.sql import SparkSession

from penstock.engine.planning.choose_planner import Planner
from penstock.engine.spark.shared_settings import scoped_settings
from penstock.plans.frames.packed_blocks import ROWS_PER_BLOCK, WALKED_ALONE

ROWS_PER_PARTITION = 250_000
ROWS_OF_ONE_PARTITION = 10_000
"""Fewer take less time than the tasks of a second partition."""
MOST_PARTITIONS = 4_096
ROWS_OF_A_BLOCK = 65_536
"""Consecutive numbers of nodes or vertices that are packed together where a walk sees a topology whole."""
ARROW_ROWS_PER_BATCH = 131_072

_TASKS_THAT_READ = "spark.sql.files.minPartitionNum"
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For few rows: the passes have some 300 classes to compile, and a session that was not configured for them
keeps 100 and compiles the others again for each plan."""


_OF_LITTLE_WORK = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Java's second compiler takes longer than what it speeds up."""


def settings_for_planner(planner: Planner) -> dict[str, str]:
    """What the JVM of a process that does nothing but plan is started with.

    Where the columnar planner was asked for, Python workers do the work.
    """
    return dict(_OF_LITTLE_WORK) if planner is Planner.COLUMNAR else {}


def partitions_for(spark: SparkSession, rows: int) -> int:
    """How many ways to partition that many rows: one if they are few, else two rounds of all cores, and more
    where partitions got large.

    Rounds are whole: with one task more than cores can take, all but one would wait for it in each stage.
    """
    if rows <= ROWS_OF_ONE_PARTITION:
        return 1
    cores = spark.sparkContext.defaultParallelism
    rounds = max(2, ceil(rows / ROWS_PER_PARTITION / cores))
    return min(MOST_PARTITIONS, rounds * cores)


def reading_settings(spark: SparkSession, partitions: int) -> AbstractContextManager[None]:
    """Sets that what is read goes through that many tasks, and puts back what was there.

    Few large files, and exchanges: a session that nobody has configured takes 200 tasks for each, or 400.
    """
    return scoped_settings(spark, _settings_of_tasks(partitions))


def _settings_of_tasks(partitions: int) -> dict[str, str]:
    wanted = {_TASKS_THAT_READ: str(partitions), "spark.sql.shuffle.partitions": str(partitions)}
    return wanted if partitions > 1 else wanted | _INTERPRETED


@contextmanager
def planning_settings(
    spark: SparkSession, partitions: int, rows_per_block: int | None = None, *, alone: bool = False
) -> Iterator[None]:
    """Sets what the passes need on `spark` and puts back what was there: a caller's session may differ.

    `rows_per_block` for topologies that are larger than a partition (see plans.joins.packed_blocks), `alone`
    where it is one.

    Adaptive execution would change partition counts between passes, and with them what stays local.
    """
    wanted = {
        **_settings_of_tasks(partitions),
        "spark.sql.adaptive.enabled": "false",
        # A broadcast may have to wait for the step before it, however long that takes.
        "spark.sql.broadcastTimeout": str(24 * 60 * 60),
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.unionOutputPartitioning": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS_PER_BATCH),
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(ROWS_PER_PARTITION),
    }
    if rows_per_block is not None:
        wanted |= {ROWS_PER_BLOCK: str(rows_per_block), WALKED_ALONE: str(alone).lower()}
    with scoped_settings(spark, wanted):
        yield
