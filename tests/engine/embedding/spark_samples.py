"""Spark's types, each with an SQL expression of a value, and the value that PySpark's own functions get."""

import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    NullType,
    Row,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
    VariantVal,
)


class Sample(NamedTuple):
    expression: str
    data_type: DataType
    value: Any


SAMPLES = {
    "decimal": Sample("cast(1.25 as decimal(10,2))", DecimalType(10, 2), Decimal("1.25")),
    "widest decimal": Sample(
        "cast('-99999999999999999999999999999999999999' as decimal(38,0))",
        DecimalType(38, 0),
        Decimal("-" + "9" * 38),
    ),
    "timestamp": Sample(
        "timestamp'2020-01-02 03:04:05.000006Z'",
        TimestampType(),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC).astimezone().replace(tzinfo=None),
    ),
    "timestamp of 1600": Sample(
        "timestamp'1600-01-01 00:00:00Z'",
        TimestampType(),
        datetime.datetime(1600, 1, 1, tzinfo=datetime.UTC).astimezone().replace(tzinfo=None),
    ),
    "timestamp_ntz": Sample(
        "timestamp_ntz'0001-01-01 00:00:00.000001'",
        TimestampNTZType(),
        datetime.datetime(1, 1, 1, 0, 0, 0, 1),
    ),
    "day to second": Sample(
        "interval '1 02:03:04.000005' day to second",
        DayTimeIntervalType(),
        datetime.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5),
    ),
    "time": Sample("time'12:34:56.123456'", TimeType(6), datetime.time(12, 34, 56, 123456)),
    "collated": Sample("'abc' collate UNICODE_CI", StringType("UNICODE_CI"), "abc"),
    "variant": Sample(
        "parse_json('{\"a\":1}')",
        VariantType(),
        VariantVal(b"\x02\x01\x00\x00\x02\x0c\x01", b"\x01\x01\x00\x01a"),
    ),
    "binary": Sample("X'0001ff'", BinaryType(), b"\x00\x01\xff"),
    "void": Sample("null", NullType(), None),
    "struct": Sample(
        "named_struct('a', 1, 'b c', array(cast(1.5 as decimal(5,1)), null))",
        StructType().add("a", "integer", False).add("b c", ArrayType(DecimalType(5, 1)), False),
        Row("a", "b c")(1, [Decimal("1.5"), None]),
    ),
    "map": Sample(
        "map('k', timestamp_ntz'2020-01-01 00:00:00')",
        MapType(StringType(), TimestampNTZType(), False),
        {"k": datetime.datetime(2020, 1, 1)},
    ),
    "array of arrays": Sample(
        "array(array(cast(1 as decimal(3,1)), null), array())",
        ArrayType(ArrayType(DecimalType(3, 1)), False),
        [[Decimal("1.0"), None], []],
    ),
}
"""Types without values that compare or hash in Spark are keys here as they are in Python."""

PASSED_ONLY = {
    "timestamp after Python's": "timestamp_micros(9223372036854775807)",
    "date before Python's": "date'-0001-01-01'",
    "year to month": "interval '1-2' year to month",
    "years": "interval '3' year",
    "nested months": "array(named_struct('x', interval '1-2' year to month))",
    "calendar": "if(true, make_interval(1,2,3,4,5,6,7.5), null)",
    "two fields of a name": "named_struct('a', 1, 'a', 2)",
    "ambiguous": "timestamp_micros(1636266600000000)",
    "ambiguous too": "timestamp_micros(1636270200000000)",
    "last timestamp": "timestamp'9999-12-31 23:59:59.999999'",
    "no fields": "named_struct()",
    "no elements": "array()",
    "no entries": "map()",
    "not a number": "cast('nan' as float)",
    "char": "cast('ab' as char(5))",
    "nested varchar": "array(named_struct('x', cast('ab' as varchar(3))))",
    "byte": "1Y",
    "commented": "2S",
}
"""Expressions of values that Python cannot hold, or that reach functions in another form."""
