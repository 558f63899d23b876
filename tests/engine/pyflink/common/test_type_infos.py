import datetime
import pickle

import pytest

from penstock.operators.common.arguments import NoJavaError
from penstock.operators.common.arrow_columns import to_arrow
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import (
    BasicTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)

LOCAL = LocalTimeTypeInfo.TimeType
TYPES = {
    "String": Types.STRING(),
    "Byte": Types.BYTE(),
    "Boolean": Types.BOOLEAN(),
    "Short": Types.SHORT(),
    "Integer": Types.INT(),
    "Long": Types.LONG(),
    "Float": Types.FLOAT(),
    "Double": Types.DOUBLE(),
    "Char": Types.CHAR(),
    "BigInteger": Types.BIG_INT(),
    "BigDecimal": Types.BIG_DEC(),
    "Instant": Types.INSTANT(),
    "DateTypeInfo": Types.SQL_DATE(),
    "TimeTypeInfo": Types.SQL_TIME(),
    "TimestampTypeInfo": Types.SQL_TIMESTAMP(),
    "PickledByteArrayTypeInfo": Types.PICKLED_BYTE_ARRAY(),
    "RowTypeInfo(Integer, String)": Types.ROW([Types.INT(), Types.STRING()]),
    "RowTypeInfo(a: Long)": Types.ROW_NAMED(["a"], [Types.LONG()]),
    "TupleTypeInfo(Integer, String)": Types.TUPLE([Types.INT(), Types.STRING()]),
    "PrimitiveArrayTypeInfo<Integer>": Types.PRIMITIVE_ARRAY(Types.INT()),
    "BasicArrayTypeInfo<String>": Types.BASIC_ARRAY(Types.STRING()),
    "ObjectArrayTypeInfo<TupleTypeInfo(Integer)>": Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])),
    "MapTypeInfo<String, Long>": Types.MAP(Types.STRING(), Types.LONG()),
    "ListTypeInfo<Long>": Types.LIST(Types.LONG()),
    "LocalTimeTypeInfo<LOCAL_DATE>": LocalTimeTypeInfo(LOCAL.LOCAL_DATE),
    "ExternalTypeInfo<Integer>": ExternalTypeInfo(Types.INT()),
}


@pytest.mark.parametrize("text", TYPES)
def test_repr(text):
    assert repr(TYPES[text]) == str(TYPES[text]) == text


@pytest.mark.parametrize("text", TYPES)
def test_equal_to_its_pickle_and_to_nothing_else(text):
    again = pickle.loads(pickle.dumps(TYPES[text]))
    assert [other for other, type_info in TYPES.items() if type_info == again] == [text]
    assert hash(again) == hash(TYPES[text])
    assert repr(again) == text


def test_pickles_leave_behind_what_columns_need():
    type_info = Types.TUPLE([Types.INT()])
    before = pickle.dumps(type_info)
    to_arrow([(1,)], type_info)
    assert pickle.dumps(type_info) == before


def test_rows_are_equal_whatever_the_names():
    assert Types.ROW_NAMED(["a"], [Types.INT()]) == Types.ROW([Types.INT()])
    assert Types.ROW([Types.INT()]) != Types.ROW([Types.LONG()])
    assert Types.ROW([Types.INT()]) != Types.TUPLE([Types.INT()])


def test_names_of_fields():
    unnamed = Types.ROW([Types.INT(), Types.INT()])
    assert unnamed.get_field_index("f1") == -1
    assert unnamed.get_field_names() == ["f0", "f1"]
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    assert named.get_field_index("b") == 1
    assert named.get_field_types() == [Types.INT(), Types.STRING()]
    with pytest.raises(ValueError, match="not in list"):
        named.get_field_index("c")
    with pytest.raises(ValueError, match="as many field names as field types, 2, got 1"):
        RowTypeInfo([Types.INT(), Types.INT()], ["a"])
    with pytest.raises(ValueError, match="must not occur twice"):
        RowTypeInfo([Types.INT(), Types.INT()], ["a", "a"])


def test_types_of_ones_own_are_equal_to_themselves_only():
    class Own(TypeInformation):
        pass

    one, other = Own(), Own()
    assert [one, other].index(other) == 1
    assert one == [one][0]


def test_no_java():
    with pytest.raises(NoJavaError, match="get_java_type_info"):
        Types.INT().get_java_type_info()


@pytest.mark.parametrize(
    ("type_info", "value", "internal"),
    [
        (Types.INT(), 5, 5),
        (Types.SQL_DATE(), datetime.date(1970, 1, 3), 2),
        (Types.INSTANT(), Instant(1, 500_000_000), 1_500_000),
    ],
)
def test_internal_values(type_info, value, internal):
    assert type_info.to_internal_type(value) == internal
    assert type_info.from_internal_type(internal) == value
    assert type_info.need_conversion() == (value != internal)


def test_internal_times_are_local_times():
    time = datetime.time(1, 2, 3, 4)
    stamp = datetime.datetime(2020, 5, 6, 7, 8, 9, 10)
    for type_info, value in ((Types.SQL_TIME(), time), (Types.SQL_TIMESTAMP(), stamp)):
        assert type_info.from_internal_type(type_info.to_internal_type(value)) == value
        assert type_info.to_internal_type(None) is None
        assert type_info.from_internal_type(None) is None
    utc = datetime.UTC
    assert Types.SQL_TIME().to_internal_type(time.replace(tzinfo=utc)) == (3723 * 10**6) + 4
    of_utc = Types.SQL_TIMESTAMP().to_internal_type(datetime.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=utc))
    assert of_utc == 1_000_005


def test_internal_rows_and_tuples():
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.SQL_DATE()])
    day = datetime.date(1970, 1, 2)

    class Attributes:
        def __init__(self):
            self.a, self.b = 1, day

    same = [Row(1, day), Row(b=day, a=1), (1, day), [1, day], {"a": 1, "b": day}, Attributes()]
    assert {named.to_internal_type(one) for one in same} == {(0, 1, 1)}
    deleted = Row.of_kind(RowKind.DELETE, 1, day)
    assert named.to_internal_type(deleted) == (3, 1, 1)
    assert Types.TUPLE([Types.INT(), Types.SQL_DATE()]).to_internal_type([1, day]) == (1, 1)
    assert named.to_internal_type(None) is None
    assert named.from_internal_type((1, 1)) == (1, 1)
    for type_info in (named, Types.TUPLE([Types.INT()])):
        with pytest.raises(ValueError, match=r"must be a (row|tuple) of .*, got 5"):
            type_info.to_internal_type(5)


@pytest.mark.parametrize(
    "call",
    [
        "LIST(5)", "LIST(None)", "LIST('int')", "LIST(int)", "MAP(5, Types.INT())", "MAP(Types.INT(), str)",
        "PRIMITIVE_ARRAY(5)", "BASIC_ARRAY(int)", "OBJECT_ARRAY([Types.INT()])", "ROW(5)", "ROW(Types.INT())",
        "ROW([int])", "ROW([Types.INT(), None])", "TUPLE('ab')", "TUPLE([5])",
        "ROW_NAMED('ab', [Types.INT()] * 2)",
        "ROW_NAMED([1], [Types.INT()])", "ROW_NAMED(['a'], [5])",
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_at_the_call(call: str) -> None:
    with pytest.raises(TypeError, match=r" must be .*, (got|not) "):
        eval(f"Types.{call}", {"Types": Types})
    for kind in (ExternalTypeInfo, BasicTypeInfo):
        with pytest.raises(TypeError, match=" must be "):
            kind(5)  # type: ignore[arg-type]
