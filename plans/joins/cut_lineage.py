"""Checkpoints without lineage and without Spark's estimate of their size."""

from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from plans.joins.blocks import rows_per_block


def free(kept: DataFrame) -> None:
    """Give back the storage of what `cut_lineage` has kept; it can no longer be read then."""
    rows = kept._jdf.logicalPlan().rdd()
    written = rows.getCheckpointFile()
    if written.isEmpty():
        rows.unpersist(False)
        return
    context: Any = kept.sparkSession.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(written.get())
    path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)


def cut_lineage(rows: DataFrame) -> DataFrame:
    """`rows`, computed now and kept, with their partitioning and without their history.

    They are kept in the checkpoint directory of the Spark context, if it has one. If not, the executors keep
    them, on a cluster two of them each block, so that the loss of one ends nothing. Giants are kept on disks.

    `localCheckpoint` keeps the size that Spark estimated for the plan it cuts. The estimate of a join is the
    product of its sides, so that a table which is joined with itself round after round gets one whose digits
    double every time, until the driver does nothing but multiply. The same checkpoint without that estimate
    has no API in Python, hence the constructor of Spark's own LogicalRDD.
    """
    spark = rows.sparkSession
    context = spark.sparkContext
    if context.getCheckpointDir() is not None:
        kept = rows.checkpoint()
    elif not str(context.master).startswith("local"):
        kept = rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY_2)
    elif rows_per_block(rows) is not None:
        # Rows of a giant that are kept as objects leave the heap too small for the joins.
        kept = rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
    else:
        kept = rows.localCheckpoint()
    jvm: Any = spark._jvm
    session = kept._jdf.sparkSession()
    cut = kept._jdf.logicalPlan()
    none = getattr(jvm, "scala.None$").__getattr__("MODULE$")
    plan = jvm.org.apache.spark.sql.execution.LogicalRDD(
        cut.output(),
        cut.rdd(),
        cut.outputPartitioning(),
        cut.outputOrdering(),
        False,
        none,
        session,
        none,
        none,
    )
    of_rows = getattr(jvm, "org.apache.spark.sql.classic.Dataset$").__getattr__("MODULE$").ofRows
    return DataFrame(of_rows(session, plan), spark)
