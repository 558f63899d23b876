"""Columns of DataFrames on their way to Python and back, where they cannot go as they are."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from penstock.operators.common.spark_schemas import GivenSchema, is_always_empty


def as_carried(df: DataFrame, schema: StructType, carried: StructType) -> DataFrame:
    """`df` with numbers as names, which may be anything, and columns as Python gets them."""
    if not schema.names:
        return df.select(F.lit(0).alias("c0"))
    named = df.toDF(*(f"c{at}" for at in range(len(schema))))
    if all(field.dataType == other.dataType for field, other in zip(schema, carried, strict=True)):
        return named
    return named.select(
        *(
            _in_steps(F.col(f"c{at}"), [_as_months(field.dataType), other.dataType], field.dataType).alias(
                f"c{at}"
            )
            for at, (field, other) in enumerate(zip(schema, carried, strict=True))
        )
    )


def as_given(df: DataFrame, schema: GivenSchema) -> DataFrame:
    """`df`, which has the carried columns of `schema`, with the given ones."""
    if not schema.given.names:
        return df.select()
    if not schema.is_carried_otherwise:
        return df
    named = df.toDF(*(f"c{at}" for at in range(len(schema.given))))
    pairs = enumerate(zip(schema.given, schema.carried, strict=True))
    return named.select(
        *(
            _given(F.col(f"c{at}"), field, other.dataType).alias(field.name, metadata=field.metadata)
            for at, (field, other) in pairs
        )
    )


def _given(column: Column, field: StructField, carried: DataType) -> Column:
    if is_always_empty(field.dataType):
        empty = F.array() if isinstance(field.dataType, ArrayType) else F.create_map()
        return F.when(column.isNotNull(), empty) if field.nullable else empty
    given = _in_steps(column, [_as_months(field.dataType), field.dataType], carried)
    if not isinstance(field.dataType, CalendarIntervalType):
        return given
    # a cast gives null for text that is not an interval
    must = f"column {field.name!r} must be an interval such as '1 month 2 days', got "
    said = F.concat(F.lit(must), column)
    return F.when(column.isNotNull() & given.isNull(), F.raise_error(said)).otherwise(given)


def _in_steps(column: Column, steps: Sequence[DataType], before: DataType) -> Column:
    """`column` cast to each type in turn; casts to the type it has are left out."""
    for step in steps:
        if step != before:
            column, before = column.cast(step), step
    return column


def _as_months(data_type: DataType) -> DataType:
    """The type with each interval of years and months as one of months, which is what numbers cast to."""
    if isinstance(data_type, YearMonthIntervalType):
        return YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)
    if isinstance(data_type, StructType):
        return StructType(
            [
                StructField(field.name, _as_months(field.dataType), field.nullable, field.metadata)
                for field in data_type
            ]
        )
    if isinstance(data_type, ArrayType):
        return ArrayType(_as_months(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, MapType):
        return MapType(
            _as_months(data_type.keyType), _as_months(data_type.valueType), data_type.valueContainsNull
        )
    return data_type
