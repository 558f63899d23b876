"""Spark's types as types of streams, without Spark: values, keys, state, windows, and what is refused."""

import datetime
import os
import pickle
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DecimalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from penstock.engine.pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import (
    KeyedProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.engine.pyflink.datastream.dataframe_streams import _lag_milliseconds
from penstock.operators.common.arrow_columns import codec_of
from penstock.operators.common.java_hash import key_hashes
from penstock.operators.common.spark_schemas import (
    given_schema,
    schema_of_stream,
    spark_type,
    type_of_spark_schema,
    unique_names,
    with_any_nulls,
)
from penstock.operators.common.spark_types import SparkTypeInfo
from penstock.operators.common.time import TimestampAssigner
from penstock.operators.state.interfaces import ValueStateDescriptor
from penstock.operators.task.sink_operators import as_declared
from penstock.operators.windows.assigners import TumblingEventTimeWindows
from tests.engine.embedding.spark_samples import SAMPLES
from tests.engine.run.runtime.run_in_process import collected

NAMES = pytest.mark.parametrize("name", SAMPLES)


@NAMES
def test_values_are_those_of_pyspark(name: str) -> None:
    sample = SAMPLES[name]
    codec = codec_of(SparkTypeInfo(sample.data_type))
    values = [sample.value, None, sample.value]
    column = codec.encode(values)
    assert column.type == codec.arrow_type
    assert repr(codec.decode(column)) == repr(values)
    assert repr(codec.decode(column.slice(1, 2))) == repr(values[1:])
    by_pyspark = ArrowTableToRowsConversion._create_converter(sample.data_type)
    assert repr(by_pyspark(column.to_pylist()[0])) == repr(sample.value)


@NAMES
def test_equal_values_have_equal_hashes(name: str) -> None:
    kind = SparkTypeInfo(SAMPLES[name].data_type)
    column = codec_of(kind).encode([SAMPLES[name].value, SAMPLES[name].value, None])
    hashes = key_hashes(column, kind)
    assert hashes[0] == hashes[1]
    assert hashes.dtype == np.uint32


class LastSeen(KeyedProcessFunction):
    """Puts out what the state of a key held before."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("last", self.kind))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield Row(self.state.value(), value.n)
        self.state.update(value.v)


class Stamps(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.n) * 1000


@pytest.mark.slow
@NAMES
@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_keys_state_and_windows(name: str, mode: RuntimeExecutionMode) -> None:
    sample = SAMPLES[name]
    schema = StructType().add("v", sample.data_type).add("n", LongType(), False)
    kind: Any = type_of_spark_schema(schema)
    of_value = kind.get_field_types()[0]
    rows = [Row(v=sample.value, n=n) for n in range(3)]

    def stream() -> Any:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.set_runtime_mode(mode)
        return env.from_collection(rows, kind)

    for key in ("v", lambda row: row.v):
        reduced = collected(stream().key_by(key).reduce(lambda a, b: Row(v=b.v, n=a.n + b.n)))
        assert repr(reduced[-1].v) == repr(sample.value)
        assert reduced[-1].n == 3
    seen = collected(stream().key_by("v").process(LastSeen(of_value), Types.ROW([of_value, Types.LONG()])))
    assert [repr(row[0]) for row in seen] == [repr(None), repr(sample.value), repr(sample.value)]
    stamped = stream().assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps())
    )
    windows = stamped.key_by("v").window(TumblingEventTimeWindows.of(Time.seconds(2)))
    found = collected(windows.reduce(lambda a, b: Row(v=b.v, n=a.n + b.n)))
    assert [(repr(row.v), row.n) for row in found] == [(repr(sample.value), 1), (repr(sample.value), 2)]


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Kolkata"])
def test_times_that_occur_twice_keep_apart(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        codec = codec_of(SparkTypeInfo(TimestampType()))
        column = pa.array([1636266600 * 10**6, 1636270200 * 10**6 + 1, -(10**16)]).cast(codec.arrow_type)
        assert codec.encode(codec.decode(column)).equals(column)
        first = [datetime.datetime(1, 1, 1, 0, 0, 0, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)]
        assert codec.decode(codec.encode(first)) == first
        aware = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        assert codec.decode(codec.encode([aware])) == [aware.astimezone().replace(tzinfo=None)]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (DecimalType(10, 2), "1.5"),
        (DecimalType(4, 2), Decimal("123.45")),
        (TimestampType(), datetime.date(2020, 1, 1)),
        (ArrayType(LongType(), False), [None]),
        (ArrayType(LongType()), 5),
        (MapType(StringType(), LongType()), [("a", 1)]),
        (StructType().add("a", "long", False), (None,)),
        (StructType().add("a", "long"), (1, 2)),
    ],
)
def test_values_of_another_type_are_named(data_type: Any, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        codec_of(SparkTypeInfo(data_type)).encode([value])
    assert data_type.simpleString() in str(raised.value)


def test_a_map_whose_keys_no_dict_takes_is_named() -> None:
    kind = SparkTypeInfo(MapType(ArrayType(LongType()), LongType()))
    column = pa.array([[([1], 2)]], kind.column_type)
    with pytest.raises(TypeError, match="map<array<bigint>,bigint>"):
        codec_of(kind).decode(column)


@pytest.mark.parametrize(
    ("data_type", "said"),
    [
        (ArrayType(CalendarIntervalType()), "array<interval>"),
        (ArrayType(MapType(NullType(), NullType())), "array<map<void,void>>"),
    ],
)
def test_types_that_no_function_can_get_are_refused_with_the_column(data_type: Any, said: str) -> None:
    with pytest.raises(TypeError, match="column 'c d'") as raised:
        type_of_spark_schema(StructType().add("c d", data_type))
    assert said in str(raised.value)


def test_schemas_are_kept_as_they_were() -> None:
    schema = (
        StructType()
        .add("a", LongType(), False, {"comment": "first"})
        .add("a", StringType())
        .add("A.b", YearMonthIntervalType())
        .add("value", StringType("UNICODE_CI"), False)
    )
    kind: Any = type_of_spark_schema(schema)
    assert kind.get_field_names() == ["a", "a_2", "A.b", "value"]
    assert schema_of_stream(pickle.loads(pickle.dumps(kind))).given == schema
    assert given_schema(Types.ROW_NAMED(["a"], [Types.LONG()])) is None
    assert type_of_spark_schema(StructType().add("value", "string")) == Types.STRING()
    of_struct: Any = type_of_spark_schema(StructType().add("value", StructType().add("x", "integer")))
    assert of_struct.get_field_names() == ["value"]


def test_a_union_allows_the_nulls_of_all() -> None:
    strict, loose = (StructType().add("n", LongType(), nullable) for nullable in (False, True))
    merged = with_any_nulls([type_of_spark_schema(strict), type_of_spark_schema(loose)])
    assert schema_of_stream(merged).given == loose
    assert schema_of_stream(type_of_spark_schema(strict)).given == strict


def test_types_declared_in_flinks_terms() -> None:
    declared = {
        "string": Types.STRING(),
        "decimal(38,0)": Types.BIG_INT(),
        "decimal(38,18)": Types.BIG_DEC(),
        "timestamp": Types.INSTANT(),
        "timestamp_ntz": Types.SQL_TIMESTAMP(),
        "time(6)": Types.SQL_TIME(),
        "date": Types.SQL_DATE(),
        "binary": Types.PRIMITIVE_ARRAY(Types.BYTE()),
        "array<int>": Types.LIST(Types.INT()),
        "map<string,bigint>": Types.MAP(Types.STRING(), Types.LONG()),
        "struct<f0:int,f1:double>": Types.TUPLE([Types.INT(), Types.DOUBLE()]),
    }
    assert {spark_type(one).simpleString(): one for one in declared.values()} == declared


def test_a_null_that_a_column_must_not_have_is_an_error() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_pydict({"other": [1, None]})
    with pytest.raises(ValueError, match="column 'n': must not be null as declared, got None"):
        as_declared(batch, schema)
    assert as_declared(batch.slice(0, 1), schema).schema == schema


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        ("10 seconds", 10_000),
        ("interval 1 minute 500 milliseconds", 60_500),
        (datetime.timedelta(hours=1), 3_600_000),
        (Duration.of_millis(7), 7),
        (None, 0),
    ],
)
def test_watermarks(given: Any, milliseconds: int) -> None:
    assert _lag_milliseconds(given) == milliseconds


@pytest.mark.parametrize("given", ["soon", "10", "10 seconds or so", datetime.timedelta(seconds=-1)])
def test_what_is_no_watermark(given: Any) -> None:
    with pytest.raises(ValueError, match="watermark"):
        _lag_milliseconds(given)


def test_names_are_made_unique() -> None:
    assert unique_names(["a", "a", "a_2", "A", "a"]) == ["a", "a_3", "a_2", "A", "a_4"]
    assert os.environ.get("TZ") is None
