"""DataFrames as sources of streams: types, event time and keys from their columns."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.engine.pyflink.datastream.stream_settings import schema_of_type, type_as_key
from penstock.engine.run.runtime.dataframe_of_job import as_carried
from penstock.operators.common.spark_schemas import (
    carried_type,
    given_schema,
    stream_type,
    type_of_spark_schema,
)
from penstock.operators.common.time import Duration, Time
from penstock.operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.operators.connectors.dataframe_source import DataFrameSource, EventTime
from penstock.operators.records.key_selection import NestedKeys
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.spark_schemas import has_ended

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
    """Return a source of the rows of `df`, with the fields of `type_info`, by position, or its own.

    `event_time`: the column with the time of rows; `watermark`: the largest delay of a row. Raises TypeError
    for a column of a type that no function can get and for a streaming DataFrame, ConfigurationError if the
    session of `df` has been stopped, and ValueError for other problems.
    """
    if not isinstance(df, DataFrame):
        raise TypeError(
            f"from_dataframe: df must be a DataFrame of Spark, got {type(df).__name__}; "
            "spark.createDataFrame converts pandas, Arrow tables and lists"
        )
    if has_ended(df.sparkSession):
        raise ConfigurationError("from_dataframe: the Spark session of the DataFrame has been stopped")
    if df.isStreaming:
        raise TypeError(
            "from_dataframe: df must be bounded, got a streaming DataFrame; "
            "df.writeStream.foreachBatch(penstock.foreach_batch(build, state=PATH)) runs a topology over it"
        )
    schema = df.schema
    record_type = type_of_spark_schema(schema) if type_info is None else type_info
    declared = schema_of_type(record_type)
    if type_info is not None and len(declared) != len(schema):
        raise ValueError(
            f"the declared type must have the DataFrame's {len(schema)} columns, got {len(declared)}"
        )
    known = given_schema(record_type)
    carried = (
        StructType([StructField(field.name, carried_type(field.dataType, field.name)) for field in schema])
        if known is None
        else known.carried
    )
    if watermark is not None and event_time is None:
        raise ValueError("watermark needs event_time, the name of the column with the rows' time")
    rows = as_carried(df, schema, carried)
    if event_time is None:
        return DataFrameSource(rows, record_type, declared)
    stamps, path = _event_time(df, schema, event_time, watermark)
    if len(path) > 1:  # in addition to the records
        rows = rows.withColumn(f"c{len(schema)}", _column_at(carried, path))
    return DataFrameSource(rows, record_type, declared, stamps)


def _column_at(carried: StructType, path: Sequence[int]) -> Column:
    """Return the field at `path` of the carried columns."""
    column = F.col(f"c{path[0]}")
    inside: Any = carried[path[0]].dataType
    for position in path[1:]:
        column, inside = column.getField(inside.names[position]), inside[position].dataType
    return column


def keys_of_rows(
    df: DataFrame, type_info: TypeInformation | None, key: Any
) -> tuple[Any, TypeInformation | None]:
    """Return the arguments of `key_by` for the columns `key` of `df`, one or several names: names or a
    function, and the type of keys.

    Columns and fields of structs are found by the session's rules for comparing names. Raises TypeError if
    `key` is not names, ValueError for a name that `df` lacks.
    """
    names = [key] if isinstance(key, str) else list(key) if isinstance(key, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"key must be the name of a column, or a list of names, got {_type_text(key)}; "
            "stream.key_by takes functions"
        )
    known = given_schema(type_info)
    if known is None:
        return _names_as_declared(df, type_info, names), None
    has_rows = isinstance(type_info, RowTypeInfo)
    paths = [_path_of(df, known.carried, name, "key") for name in names]
    if has_rows and all(len(path) == 1 for path in paths):
        return [known.carried[path[0]].name for path in paths], None
    types = [
        type_as_key(stream_type(_field_at(known.carried, path), _field_at(known.given, path)))
        for path in paths
    ]
    keys = NestedKeys([path if has_rows else path[1:] for path in paths])
    return keys, types[0] if len(types) == 1 else TupleTypeInfo(types)


def _names_as_declared(df: DataFrame, type_info: TypeInformation | None, names: list[str]) -> list[str]:
    """Return `names` in the spelling of the declared type."""
    if not isinstance(type_info, RowTypeInfo):
        return names
    fields = type_info.get_field_names()
    positions_of_names = [(name, _positions(df, fields, name)) for name in names]
    return [fields[at[0]] if len(at) == 1 else name for name, at in positions_of_names]


_PART_OF_NAME = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def _path_of(df: DataFrame, schema: StructType, name: str, argument: str) -> list[int]:
    """Return the position of column `name`, or the path of positions to a struct's field named with dots."""
    positions = _positions(df, schema.names, name)
    if len(positions) == 1:
        return positions
    path: list[int] = []
    inside: Any = schema
    for quoted, plain in _PART_OF_NAME.findall(name) if not positions else ():
        at = (
            _positions(df, inside.names, quoted.replace("``", "`") or plain)
            if isinstance(inside, StructType)
            else []
        )
        if len(at) != 1:
            break
        path += at
        inside = inside[at[0]].dataType
    else:
        if path:
            return path
    problem = f"{name!r}, the name of several" if positions else repr(name)
    raise ValueError(
        f"{argument} must name one of the columns {', '.join(map(repr, schema.names))}, got {problem}"
    )


def _field_at(schema: StructType, path: Sequence[int]) -> DataType:
    inside: Any = schema
    for position in path:
        inside = inside[position].dataType
    kind: DataType = inside
    return kind


def _type_text(value: Any) -> str:
    if not isinstance(value, list | tuple):
        return type(value).__name__
    return f"[{', '.join(repr(part) if isinstance(part, str) else type(part).__name__ for part in value)}]"


def _positions(df: DataFrame, names: Sequence[str], wanted: str) -> list[int]:
    exact = [at for at, name in enumerate(names) if name == wanted]
    if exact or df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true":
        return exact
    return [at for at, name in enumerate(names) if name.lower() == wanted.lower()]


def _event_time(
    df: DataFrame, schema: StructType, column: Any, watermark: str | datetime.timedelta | Duration | None
) -> tuple[EventTime, list[int]]:
    """Return the event time, and the path of its field."""
    if not isinstance(column, str):
        raise TypeError(f"event_time must be the name of a column, got {_type_text(column)}")
    path = _path_of(df, schema, column, "event_time")
    kind = _field_at(schema, path)
    if not isinstance(kind, _TIMES):
        raise TypeError(
            f"event_time must be a column of type timestamp, timestamp_ntz, date, or bigint (milliseconds "
            f"since the epoch), got column {column!r} of type {kind.simpleString()}"
        )
    position = path[0] if len(path) == 1 else len(schema)
    return EventTime(position, column, _lag_milliseconds(watermark)), path


def _lag_milliseconds(watermark: Any) -> int:
    if watermark is None:
        return 0
    if isinstance(watermark, Duration):
        lag: int = watermark.nanoseconds // 1_000_000
    elif isinstance(watermark, Time):
        lag = watermark.to_milliseconds()
    elif isinstance(watermark, datetime.timedelta):
        lag = watermark // datetime.timedelta(milliseconds=1)
    else:
        text = str(watermark).strip().lower().removeprefix("interval ").strip()
        parts = _INTERVAL.findall(text)
        if not parts or _INTERVAL.sub("", text):
            raise ValueError(f"watermark must be an interval such as '10 seconds', got {watermark!r}")
        lag = round(sum(float(number) * _MILLISECONDS[unit.lower()] for number, unit in parts))
    if lag < 0:
        raise ValueError(f"watermark must be an interval of at least 0, got {watermark!r}")
    return lag
