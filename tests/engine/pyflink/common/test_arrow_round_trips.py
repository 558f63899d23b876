"""Values of every type go through columns and come back as they were."""

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.common.arrow_columns import (
    arrow_type,
    coerce,
    from_arrow,
    to_arrow,
    type_info_of_arrow,
)
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, Types

STEADY = settings(derandomize=True, deadline=None)
LOCAL = {one.name: LocalTimeTypeInfo(one) for one in LocalTimeTypeInfo.TimeType}


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
STAMPS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 30))


def to_millisecond(value):
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


#: Types, and values of them that come back as they are.
LEAVES = [
    (Types.STRING(), WORDS),
    (Types.CHAR(), WORDS),
    (Types.BOOLEAN(), st.booleans()),
    (Types.BYTE(), integers(8)),
    (Types.SHORT(), integers(16)),
    (Types.INT(), integers(32)),
    (Types.LONG(), integers(64)),
    (Types.BIG_INT(), st.integers()),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False).map(lambda value: value + 0)),
    (Types.SQL_DATE(), STAMPS.map(lambda value: value.date())),
    (Types.SQL_TIME(), STAMPS.map(lambda value: to_millisecond(value).time())),
    (Types.SQL_TIMESTAMP(), STAMPS.map(to_millisecond)),
    (Types.INSTANT(), st.builds(Instant, integers(64), st.integers(0, 10**9 - 1))),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=4)),
    (Types.LIST(Types.BYTE()), st.binary(max_size=4)),
    (LOCAL["LOCAL_DATE"], STAMPS.map(lambda value: value.date())),
    (LOCAL["LOCAL_TIME"], STAMPS.map(lambda value: value.time())),
    (LOCAL["LOCAL_DATE_TIME"], STAMPS),
    (Types.PICKLED_BYTE_ARRAY(), st.lists(st.integers(), max_size=2)),
    (ExternalTypeInfo(Types.INT()), integers(32)),
]


def or_none(values):
    return st.none() | values


def composite(inner):
    """Types made of `inner` types, with values of them."""
    return st.one_of(
        st.lists(inner, max_size=3).map(
            lambda fields: (
                Types.TUPLE([one for one, _ in fields]),
                st.tuples(*[or_none(values) for _, values in fields]),
            )
        ),
        st.lists(inner, max_size=3).map(
            lambda fields: (
                Types.ROW([one for one, _ in fields]),
                st.builds(
                    lambda kind, *values: named(kind, values),
                    st.sampled_from(RowKind),
                    *[or_none(values) for _, values in fields],
                ),
            )
        ),
        inner.filter(lambda one: one[0] != Types.BYTE()).map(
            lambda one: (Types.LIST(one[0]), st.lists(or_none(one[1]), max_size=3))
        ),
        inner.map(lambda one: (Types.OBJECT_ARRAY(one[0]), st.lists(or_none(one[1]), max_size=3))),
        inner.map(
            lambda one: (
                Types.MAP(Types.LONG(), one[0]),
                st.dictionaries(integers(64), or_none(one[1]), max_size=3),
            )
        ),
    )


def named(kind, values):
    row = Row.of_kind(kind, *values)
    row.set_field_names([f"f{position}" for position in range(len(values))])
    return row


@st.composite
def columns(draw):
    """A type, and a list of values of it."""
    type_info, values = draw(st.recursive(st.sampled_from(LEAVES), composite, max_leaves=5))
    return type_info, draw(st.lists(or_none(values), max_size=5))


@pytest.mark.slow
@STEADY
@given(columns(), st.integers(0, 5), st.integers(0, 5))
def test_what_fits_comes_back(column, start, count):
    type_info, values = column
    array = to_arrow(values, type_info)
    assert from_arrow(array, type_info) == values
    assert from_arrow(array.slice(start, count), type_info) == values[start : start + count]
    assert from_arrow(streamed(array.slice(start)), type_info) == values[start:]
    assert list(coerce(values, type_info)) == values


def streamed(array):
    batch = pa.RecordBatch.from_arrays([array], ["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch().column(0)


@pytest.mark.parametrize(
    "type_info", [one for one, _ in LEAVES if one not in (Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT())]
)
def test_arrow_types_stand_for_their_values(type_info):
    again = arrow_type(type_info_of_arrow(arrow_type(type_info)))
    assert again == arrow_type(type_info)
