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

    Spark's checkpoint forgets the partitioning where its optimizer has taken out aliases: the columns are
    named as before, the partitioning as without them. It is said here by the columns.

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
    computed = rows._jdf.queryExecution().executedPlan().output()
    partitioning, ordering = cut.outputPartitioning(), cut.outputOrdering()
    if computed.toString() != cut.output().toString():
        partitioning = _by_columns(jvm, partitioning, computed, cut.output())
        ordering = jvm.PythonUtils.toSeq([])
    plan = jvm.org.apache.spark.sql.execution.LogicalRDD(
        cut.output(),
        cut.rdd(),
        partitioning,
        ordering,
        False,
        none,
        session,
        none,
        none,
    )
    of_rows = getattr(jvm, "org.apache.spark.sql.classic.Dataset$").__getattr__("MODULE$").ofRows
    return DataFrame(of_rows(session, plan), spark)


def _by_columns(jvm: Any, partitioning: Any, computed: Any, columns: Any) -> Any:
    """A hash partitioning by some of the columns `computed`, as one by `columns` in the same places."""
    if partitioning.getClass().getSimpleName() != "HashPartitioning":
        return partitioning
    place = {computed.apply(i).exprId().id(): i for i in range(computed.size())}
    by = partitioning.expressions()
    ids = [by.apply(i).references().head().exprId().id() for i in range(by.size())]
    if not place.keys() >= set(ids):
        return partitioning
    return partitioning.withNewChildren(jvm.PythonUtils.toSeq([columns.apply(place[one]) for one in ids]))
