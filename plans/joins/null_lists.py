"""Lists on their way from Spark to Arrow, without the cost of those that are null.

Where most lists of a batch are null, the time of Arrow's Java writer grows with the square of its size.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.joins.spark_schemas import spark_type

_IS_NULL = " is null"


def without_null_lists(rows: DataFrame, schema: pa.Schema) -> DataFrame:
    """The columns of `schema`, with empty lists for null, and columns that say which lists are null."""
    columns = []
    for field in schema:
        column = F.col(field.name)
        if _may_be_null(field):
            columns.append(column.isNull().alias(field.name + _IS_NULL))
            column = F.coalesce(column, F.array().cast(spark_type(field.type))).alias(field.name)
        columns.append(column)
    return rows.select(*columns)


def with_null_lists(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema` as they were before `without_null_lists`."""
    columns = []
    for field in schema:
        column = rows.column(field.name)
        if _may_be_null(field):
            column = pc.if_else(rows.column(field.name + _IS_NULL), pa.scalar(None, column.type), column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _may_be_null(field: pa.Field) -> bool:
    return bool(field.nullable and pa.types.is_list(field.type))
