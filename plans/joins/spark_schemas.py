"""The declared tables as Spark's schemas, and DataFrames that have them."""

from functools import cache

import pyarrow as pa
from pyspark.sql import DataFrame
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

from plans.tables import TABLES, require_schema
from plans.tables.column_types import BOOL, COMMENT, DOUBLE, INT, LONG, STR, TIMESTAMP

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
    """The schema of a declared table, with comments as metadata. Values inside columns are not null."""
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
    """Spark's type for a column type of plans.tables. Values inside it are not null."""
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type), valueContainsNull=False)
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type), containsNull=False)
    if pa.types.is_struct(kind):
        return StructType([StructField(field.name, spark_type(field.type), False) for field in kind])
    return _SIMPLE[kind]


def column_types(frame: DataFrame) -> dict[str, str]:
    """Column to the name of its type, as require_schema takes them."""
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def conform(frame: DataFrame, table: str) -> DataFrame:
    """`frame` with exactly the declared columns of `table`, in order, with their comments.

    Raises SchemaError naming every column that is missing, extra or of another type.
    """
    require_schema(column_types(frame), table)
    return frame.select(
        *(
            frame[field.name].alias(field.name, metadata=field.metadata)
            for field in spark_schema(table).fields
        )
    )
