"""Declared tables as Spark schemas, and DataFrames that conform to them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.plans.frames.packed_blocks import rows_per_block
from penstock.plans.tables import TABLES, require_schema
from penstock.plans.tables.column_types import BOOL, COMMENT, DOUBLE, INT, LONG, STR, TIMESTAMP

_SIMPLE: dict[pa.DataType, DataType] = {
    BOOL: BooleanType(),
    DOUBLE: DoubleType(),
    INT: IntegerType(),
    LONG: LongType(),
    STR: StringType(),
    TIMESTAMP: TimestampType(),
}


@cache
def spark_schema(table: str) -> StructType:
    """Return the schema of a declared table, with comments as metadata. Values inside columns
    are not null.
    """
    return StructType(
        [
            StructField(
                field.name,
                spark_type(field.type),
                field.nullable,
                {"comment": field.metadata[COMMENT].decode()},
            )
            for field in TABLES[table]
        ]
    )


def spark_type(kind: pa.DataType) -> DataType:
    """Return Spark's type for a column type of plans.tables."""
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type), valueContainsNull=False)
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type), containsNull=False)
    if pa.types.is_struct(kind):
        # Nullable, though no value is null: otherwise PySpark's toArrow fails if the whole struct is null.
        return StructType([StructField(field.name, spark_type(field.type)) for field in kind])
    return _SIMPLE[kind]


def column_types(frame: DataFrame) -> dict[str, str]:
    """Return column to type name, in the form that require_schema takes."""
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def conform(frame: DataFrame, table: str) -> DataFrame:
    """Return `frame` with exactly the declared columns of `table`, in order, with their comments.

    Raises SchemaError, which names every missing column, extra column and column of another type.
    """
    require_schema(column_types(frame), table)
    columns = {field.name: field for field in frame.schema.fields}
    wanted = StructType()
    for field in spark_schema(table).fields:
        column = columns[field.name]
        wanted.add(StructField(field.name, column.dataType, column.nullable, field.metadata))
    return frame.to(wanted)


def free(kept: DataFrame) -> None:
    """Release the storage of a result of `cut_lineage`, which cannot be read afterwards.

    A stopped session has released it already.
    """
    if _is_connect(kept):  # the server frees what nothing refers to
        return
    context: Any = kept.sparkSession.sparkContext
    with unless_ended(kept.sparkSession):
        rows = kept._jdf.logicalPlan().rdd()
        written = rows.getCheckpointFile()
        if written.isEmpty():
            rows.unpersist(False)
            return
        path = java_class(context._jvm, "org.apache.hadoop.fs.Path")(written.get())
        path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)


def _is_connect(of_spark: Any) -> bool:
    """Return whether a session or a DataFrame belongs to a client of Spark Connect, which has no JVM."""
    return type(of_spark).__module__.startswith("pyspark.sql.connect")


def has_ended(spark: Any) -> bool:
    """Return whether a session, classic or Connect, has been stopped, or its JVM has ended."""
    if _is_connect(spark):
        return bool(spark.is_stopped)
    java: Any = spark.sparkContext._jsc
    try:
        return java is None or bool(java.sc().isStopped())
    except Py4JError:
        return True


@contextmanager
def unless_ended(spark: Any) -> Iterator[None]:
    """Ignore errors of the block if the session has ended, as the resources to clean up are
    then gone, too.
    """
    try:
        yield
    except Exception:
        if not has_ended(spark):
            raise


def cut_lineage(rows: DataFrame) -> DataFrame:
    """Compute and checkpoint `rows` now, with their partitioning and without their lineage (see keep)."""
    kept = keep(rows)
    compute(kept)
    return kept


def keep(rows: DataFrame) -> DataFrame:
    """Return `rows` checkpointed on first use (by `compute` or by a reader), with their partitioning.

    Until then the caller must hold a reference to `rows`: tasks report to metrics of its plan, and Spark
    complains if they are gone. If the Spark context has a checkpoint directory, rows are computed at once and
    stored there. Otherwise the executors store them; on a cluster two executors store each block, so that the
    run survives the loss of one. Giants are stored on disk.

    Spark's checkpoint loses the partitioning if its optimizer removed aliases: the columns have their new
    names, the partitioning refers to the old ones. It is expressed by the new columns here.

    `localCheckpoint` keeps the size that Spark estimated for the plan it cuts. The estimate of a join is the
    product of its sides, so a table that is joined with itself in every round gets an estimate whose digits
    double each time, until the driver only multiplies. Python has no API for a checkpoint without that
    estimate, hence the constructor of Spark's own LogicalRDD.
    """
    return _as_kept(_checkpointed(rows), rows)


def keep_with_lineage(rows: DataFrame) -> DataFrame:
    """As `keep`; what all executors that stored it have lost on a cluster is computed again from its lineage.

    For rows that few exchanges lead up to: their files stay until the result is collected as garbage. Over
    Spark Connect, the server keeps the rows, without their partitioning.
    """
    if _is_connect(rows):
        return rows.localCheckpoint(eager=False)
    kept = _checkpointed(rows)
    context = rows.sparkSession.sparkContext
    if context.getCheckpointDir() is None and not is_local(context):
        stored = kept._jdf.logicalPlan().rdd()
        # Copied and persisted for a checkpoint that will not take place.
        getattr(stored, "checkpointData_$eq")(_scala_object(context._jvm, "scala.None"))
    return _as_kept(kept, rows)


def is_local(context: Any) -> bool:
    """Return whether a SparkContext runs tasks in its own JVM: not on `local-cluster[2,1,1024]`."""
    return re.match(r"local(\[|$)", str(context.master)) is not None


def _checkpointed(rows: DataFrame) -> DataFrame:
    context = rows.sparkSession.sparkContext
    if context.getCheckpointDir() is not None:
        return rows.checkpoint()
    if not is_local(context):
        return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY_2)
    if rows_per_block(rows) is not None:
        # A giant's rows stored as objects would leave the heap too small for the joins.
        return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)
    return rows.localCheckpoint(eager=False)


def _as_kept(kept: DataFrame, rows: DataFrame) -> DataFrame:
    """`kept`, a checkpoint of `rows`, with their partitioning and without Spark's estimate of its size."""
    jvm: Any = rows.sparkSession._jvm
    cut = kept._jdf.logicalPlan()
    none = _scala_object(jvm, "scala.None")
    computed = rows._jdf.queryExecution().executedPlan().output()
    partitioning, ordering = cut.outputPartitioning(), cut.outputOrdering()
    if computed.toString() != cut.output().toString():
        partitioning = _by_columns(jvm, partitioning, computed, cut.output())
        ordering = jvm.PythonUtils.toSeq([])
    plan = java_class(jvm, "org.apache.spark.sql.execution.LogicalRDD")(
        cut.output(),
        cut.rdd(),
        partitioning,
        ordering,
        False,
        none,
        kept._jdf.sparkSession(),
        none,
        none,
    )
    return _frame_of_plan(plan, rows)


def compute(kept: DataFrame) -> None:
    """Compute a DataFrame that `keep` returned, unless it has been computed.

    Reads one row of each partition; Spark's own eager checkpoint reads back everything it has just written.
    """
    if not kept._jdf.logicalPlan().rdd().isCheckpointed():
        jvm: Any = kept.sparkSession._jvm
        literal = _scala_object(jvm, "org.apache.spark.sql.catalyst.expressions.Literal").apply(1)
        limit = java_class(jvm, "org.apache.spark.sql.catalyst.plans.logical.LocalLimit")
        first = limit(literal, kept._jdf.logicalPlan())
        _frame_of_plan(first, kept).select(F.lit(1)).collect()


def _frame_of_plan(plan: Any, like: DataFrame) -> DataFrame:
    spark = like.sparkSession
    jvm: Any = spark._jvm
    dataset = _scala_object(jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(like._jdf.sparkSession(), plan), spark)


def java_class(jvm: Any, name: str) -> Any:
    """Return the class `name` in one look-up; `jvm.a.b.C` also searches all jars for classes
    `a` and `a.b`.
    """
    return getattr(jvm, name)


def _scala_object(jvm: Any, name: str) -> Any:
    return getattr(java_class(jvm, f"{name}$"), "MODULE$")


def _by_columns(jvm: Any, partitioning: Any, computed: Any, columns: Any) -> Any:
    """Express a hash partitioning by some of the columns `computed` in terms of `columns` at the same
    positions.
    """
    if partitioning.getClass().getSimpleName() != "HashPartitioning":
        return partitioning
    place = {computed.apply(i).exprId().id(): i for i in range(computed.size())}
    by = partitioning.expressions()
    kinds = {by.apply(i).getClass().getSimpleName() for i in range(by.size())}
    if kinds != {"AttributeReference"}:
        return partitioning
    ids = [by.apply(i).exprId().id() for i in range(by.size())]
    if not place.keys() >= set(ids):
        return partitioning
    return partitioning.withNewChildren(
        jvm.PythonUtils.toSeq([columns.apply(place[expression_id]) for expression_id in ids])
    )
