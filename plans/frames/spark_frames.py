"""Empty DataFrames, joins within topologies, null lists and texts."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.plans.frames.packed_blocks import rows_per_block
from penstock.plans.frames.spark_schemas import spark_type
from penstock.plans.printable import MOST_CHARACTERS
from penstock.plans.tables.column_types import TOPOLOGY


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty DataFrame that Spark knows to be empty; PySpark's own way starts Python workers to find
    out.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.createDataFrame([], schema)
    session, jvm = spark._jsparkSession, spark._jvm
    assert jvm is not None
    return DataFrame(
        session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(schema.json())), spark
    )


def join_local(left: DataFrame, right: DataFrame, on: Mapping[str, str], how: str = "inner") -> DataFrame:
    """Join `left` with `right` on the topology and on the pairs of columns in `on` (left to right).

    Return the columns of left, then the columns of right without its keys; the two sets of names must be
    disjoint. It is a shuffled hash join that builds `right`: if both sides are partitioned by topology,
    nothing is exchanged or sorted. If topologies have blocks and the join is on the topology alone, `right`,
    which then has few rows per topology, is broadcast, and the rows of left are not moved.
    """
    broadcast = not on and rows_per_block(left) is not None
    keys = {TOPOLOGY: TOPOLOGY, **on}
    # Renamed, not qualified by alias: Spark loses the partitioning of a checkpoint when it distinguishes two
    # uses of it and the columns carry qualifiers.
    names = {name: f"_key_{index}" for index, name in enumerate(keys.values())}
    renamed = right.withColumnsRenamed(names)
    # As text: PySpark sends the JVM some ten messages for each column built from objects.
    condition = F.expr(" AND ".join(f"`{column}` = {names[key]}" for column, key in keys.items()))
    hinted = F.broadcast(renamed) if broadcast else renamed.hint("shuffle_hash")
    joined = left.join(hinted, condition, how)
    return joined if how in ("left_semi", "left_anti") else joined.drop(*names.values())


_IS_NULL = " is null"


def without_null_lists(rows: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the columns of `schema` with empty lists for null, and flag columns that mark the null lists."""
    columns = []
    for field in schema:
        column = F.col(field.name)
        if _may_be_null(field):
            columns.append(column.isNull().alias(field.name + _IS_NULL))
            column = F.coalesce(column, F.array().cast(spark_type(field.type))).alias(field.name)
        columns.append(column)
    return rows.select(*columns)


def with_null_lists(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Restore the columns of `schema` from a result of `without_null_lists`."""
    columns = []
    for field in schema:
        column = rows.column(field.name)
        if _may_be_null(field):
            column = pc.if_else(rows.column(field.name + _IS_NULL), pa.scalar(None, column.type), column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _may_be_null(field: pa.Field) -> bool:
    return bool(field.nullable and pa.types.is_list(field.type))


def limited_column(text: Column, most: int = MOST_CHARACTERS) -> Column:
    """Return the text, or its first `most` characters and the number of further ones."""
    more = F.length(text) - most
    count = F.format_number(more, 0)
    cut = F.concat(F.substring(text, 1, most), F.lit("… ("), count, F.lit(" more characters)"))
    return F.when(more > 0, cut).otherwise(text)
