"""DataFrames as sources of streams, and the columns of a stream as those of a DataFrame again."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    DateType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.engine.common.time import Duration
from penstock.engine.common.typeinfo import TypeInformation
from penstock.engine.datastream.arrow_schemas import schema_of_type
from penstock.engine.runtime.carried_columns import as_carried
from penstock.engine.runtime.spark_application import is_stopped
from penstock.operators.common.spark_schemas import carried_type, given_schema, type_of_spark_schema
from penstock.operators.connectors.dataframe_source import DataFrameSource, EventTime

_TIMES = (TimestampType, TimestampNTZType, DateType, LongType)
_MILLISECONDS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(millisecond|second|minute|hour|day|week)s?\b\s*", re.IGNORECASE)


def dataframe_source(
    df: DataFrame,
    type_info: TypeInformation | None,
    event_time: str | None,
    watermark: str | datetime.timedelta | Duration | None,
) -> DataFrameSource:
    """The rows of `df`, with the fields of `type_info`, by position, or its own.

    `event_time`: the column with their time; `watermark`: how much later than another one a row may come.
    TypeError names a column of a type that no function could get, or says that `df` has no end; ValueError
    says what else is wrong.
    """
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"from_dataframe: found {type(df).__name__}, allowed a DataFrame of Spark; spark.createDataFrame "
            "makes one of pandas, Arrow tables and lists"
        )
    if is_stopped(df.sparkSession):
        raise ValueError("from_dataframe: the Spark session of the DataFrame has been stopped")
    if df.isStreaming:
        raise TypeError(
            "from_dataframe: found a streaming DataFrame, allowed one with an end; within "
            "df.writeStream.foreachBatch each batch is one"
        )
    schema = df.schema
    record_type = type_of_spark_schema(schema) if type_info is None else type_info
    declared = schema_of_type(record_type)
    if type_info is not None and len(declared) != len(schema):
        raise ValueError(f"the DataFrame has {len(schema)} columns, the declared type {len(declared)}")
    known = given_schema(record_type)
    carried = (
        StructType([StructField(field.name, carried_type(field.dataType, field.name)) for field in schema])
        if known is None
        else known.carried
    )
    if watermark is not None and event_time is None:
        raise ValueError("watermark needs event_time, the name of the column with the rows' time")
    stamps = None if event_time is None else _event_time(df, event_time, watermark)
    return DataFrameSource(as_carried(df, schema, carried), record_type, declared, stamps)


def names_of_columns(df: DataFrame, names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Each of `wanted` as `names` have it: exactly, else as the session of `df` compares names.

    One that is not there, or there more than once, is given back as it is.
    """
    as_named = []
    for name in wanted:
        positions = _positions(df, names, name)
        as_named.append(names[positions[0]] if len(positions) == 1 else name)
    return as_named


def _positions(df: DataFrame, names: Sequence[str], wanted: str) -> list[int]:
    exact = [at for at, name in enumerate(names) if name == wanted]
    if exact or df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true":
        return exact
    return [at for at, name in enumerate(names) if name.lower() == wanted.lower()]


def _event_time(
    df: DataFrame, column: str, watermark: str | datetime.timedelta | Duration | None
) -> EventTime:
    schema = df.schema
    positions = _positions(df, schema.names, column)
    if len(positions) != 1:
        raise ValueError(
            f"event_time: {'several columns' if positions else 'no column'} {column!r}; "
            f"the DataFrame has {', '.join(map(repr, schema.names))}"
        )
    kind = schema[positions[0]].dataType
    if not isinstance(kind, _TIMES):
        raise TypeError(
            f"event_time: column {column!r} is {kind.simpleString()}, allowed timestamp, timestamp_ntz, "
            "date, or bigint (milliseconds since the epoch)"
        )
    return EventTime(positions[0], schema.names[positions[0]], _lag_milliseconds(watermark))


def _lag_milliseconds(watermark: Any) -> int:
    if watermark is None:
        return 0
    if isinstance(watermark, Duration):
        lag: int = watermark.nanoseconds // 1_000_000
    elif isinstance(watermark, datetime.timedelta):
        lag = watermark // datetime.timedelta(milliseconds=1)
    else:
        text = str(watermark).strip().lower().removeprefix("interval ").strip()
        parts = _INTERVAL.findall(text)
        if not parts or _INTERVAL.sub("", text):
            raise ValueError(f"watermark: found {watermark!r}, allowed an interval such as '10 seconds'")
        lag = round(sum(float(number) * _MILLISECONDS[unit.lower()] for number, unit in parts))
    if lag < 0:
        raise ValueError(f"watermark: found {watermark!r}, allowed an interval of at least 0")
    return lag
