"""Columns as DataFrames and files have them, and the types that stand for them."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_columns import from_arrow, type_info_of_arrow
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import LocalTimeTypeInfo, Types
from penstock.operators.formats.part_formats import as_stored

LOCAL = {one.name: LocalTimeTypeInfo(one) for one in LocalTimeTypeInfo.TimeType}
ROW = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.INT()])
DAY, UTC = datetime.datetime(2020, 1, 1), datetime.UTC


@pytest.mark.parametrize(
    ("array", "type_info", "values"),
    [
        (pa.array([1, None], pa.int32()), Types.LONG(), [1, None]),
        (pa.array(["a", None], pa.large_string()), Types.STRING(), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), Types.STRING(), ["a", "b", "a"]),
        (pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)), Types.BIG_DEC(), [Decimal("1.10"), None]),
        (pa.array([5], pa.uint64()), Types.BIG_INT(), [5]),
        (
            pa.array([DAY.replace(microsecond=1999), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
            Types.SQL_TIMESTAMP(),
            [DAY.replace(microsecond=1000), datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)],
        ),
        (
            pa.array([-1_500_000, 1_500_001, None], pa.timestamp("us", "Europe/Rome")),
            Types.INSTANT(),
            [Instant(-2, 500_000_000), Instant(1, 500_001_000), None],
        ),
        (
            pa.array([datetime.datetime(2020, 7, 1, tzinfo=UTC)], pa.timestamp("us", "Europe/Rome")),
            Types.SQL_TIMESTAMP(),
            [datetime.datetime(2020, 7, 1, 2)],
        ),
        (pa.array([datetime.time(1, 2, 3, 456789)]), Types.SQL_TIME(), [datetime.time(1, 2, 3, 456000)]),
        (pa.array([b"a", None], pa.large_binary()), Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", None]),
        (pa.array([[1], None, []], pa.large_list(pa.int32())), Types.LIST(Types.LONG()), [[1], None, []]),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), Types.LIST(Types.LONG()), [[1, 2]]),
        (
            pa.array([[("a", 1)], None], pa.map_(pa.large_string(), pa.int8())),
            Types.MAP(Types.STRING(), Types.INT()),
            [{"a": 1}, None],
        ),
        (
            pa.array([{"x": "a", "y": 1}, None], pa.struct([("x", pa.large_string()), ("y", pa.int64())])),
            ROW,
            [Row(word="a", count=1), None],
        ),
        (pa.chunked_array([["a"], ["b"]]), Types.STRING(), ["a", "b"]),
    ],
)
def test_columns_that_data_frames_have(array, type_info, values):
    assert from_arrow(array, type_info) == values
    assert from_arrow(array[1:], type_info) == values[1:]


def test_columns_that_do_not_fit():
    with pytest.raises(pa.ArrowInvalid):
        from_arrow(pa.array([2**40]), Types.INT())
    with pytest.raises(pa.ArrowInvalid, match="1 fields"):
        from_arrow(pa.array([{"x": 1}]), ROW)


@pytest.mark.parametrize(
    ("data_type", "type_info"),
    [
        (pa.bool_(), Types.BOOLEAN()),
        (pa.int8(), Types.BYTE()),
        (pa.uint8(), Types.SHORT()),
        (pa.int32(), Types.INT()),
        (pa.uint32(), Types.LONG()),
        (pa.uint64(), Types.BIG_INT()),
        (pa.float32(), Types.FLOAT()),
        (pa.float64(), Types.DOUBLE()),
        (pa.large_string(), Types.STRING()),
        (pa.string_view(), Types.STRING()),
        (pa.binary(3), Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (pa.large_binary(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (pa.decimal128(10, 2), Types.BIG_DEC()),
        (pa.date32(), Types.SQL_DATE()),
        (pa.time32("s"), Types.SQL_TIME()),
        (pa.time64("ns"), LOCAL["LOCAL_TIME"]),
        (pa.timestamp("ms"), Types.SQL_TIMESTAMP()),
        (pa.timestamp("us"), LOCAL["LOCAL_DATE_TIME"]),
        (pa.timestamp("us", "UTC"), Types.INSTANT()),
        (pa.dictionary(pa.int32(), pa.string()), Types.STRING()),
        (pa.list_(pa.int32()), Types.LIST(Types.INT())),
        (pa.large_list(pa.string()), Types.LIST(Types.STRING())),
        (pa.map_(pa.string(), pa.int64()), Types.MAP(Types.STRING(), Types.LONG())),
    ],
)
def test_types_of_columns(data_type, type_info):
    assert type_info_of_arrow(data_type) == type_info


def test_types_of_structs_and_schemas():
    fields = [("word", pa.string()), ("at", pa.struct([("x", pa.int32())]))]
    expected = Types.ROW_NAMED(["word", "at"], [Types.STRING(), Types.ROW_NAMED(["x"], [Types.INT()])])
    for found in (type_info_of_arrow(pa.struct(fields)), type_info_of_arrow(pa.schema(fields))):
        assert repr(found) == repr(expected)


@pytest.mark.parametrize("data_type", [pa.null(), pa.duration("s"), pa.month_day_nano_interval()])
def test_columns_without_a_type(data_type):
    with pytest.raises(TypeError, match="no corresponding Flink type"):
        type_info_of_arrow(data_type)


def test_moments_stay_the_same_in_another_time_zone() -> None:
    moments = pa.array([-1_500_000, None], pa.timestamp("us", "America/New_York"))
    lists = pa.LargeListArray.from_arrays([0, 2], moments)
    adapted = as_arrow_type(lists, pa.list_(pa.timestamp("us", "UTC")))
    assert adapted.values.cast(pa.int64()).to_pylist() == [-1_500_000, None]


@pytest.mark.parametrize("text", ["1E+30", "-1E+30", "100000000000000000000.5", "1" + "0" * 400])
def test_numbers_too_large_for_a_decimal_are_no_other_numbers(text: str) -> None:
    decimal = pa.decimal128(38, 18)
    assert as_stored(pa.array(["-1E+19", None]), decimal).to_pylist() == [Decimal(-(10**19)), None]
    with pytest.raises(pa.ArrowInvalid, match="fit"):
        as_stored(pa.array([text]), decimal)


def test_rows_of_dataframes_are_dicts_as_spark_calls_it() -> None:
    assert Row(a=1, b=Row(c=2)).asDict(recursive=True) == {"a": 1, "b": {"c": 2}}
