import datetime
import gc
from collections import namedtuple
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from penstock.operators.common.arrow_columns import arrow_type, coerce, from_arrow, to_arrow
from penstock.operators.common.arrow_types import ROW_KIND_FIELD
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import TypeInformation, Types

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
DAY, UTC = datetime.datetime(2020, 1, 1), datetime.UTC
ROW = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.INT()])
Named = namedtuple("Named", "word count")


@pytest.mark.parametrize(
    ("type_info", "values"),
    [
        (Types.INT(), [1, None, 2]),
        (Types.STRING(), ["a", None]),
        (Types.DOUBLE(), [1.5]),
        (Types.BOOLEAN(), [True]),
        (Types.BIG_DEC(), [Decimal("1.10")]),
        (Types.SQL_TIMESTAMP(), [DAY]),
        (Types.INSTANT(), [Instant(1, 2)]),
        (PAIR, [("a", 1), None, (None, 2)]),
        (ROW, [Row(word="a", count=1), None]),
        (Types.LIST(Types.INT()), [[1], None, []]),
        (Types.MAP(Types.STRING(), Types.INT()), [{"a": 1, "b": 2}, {}]),
        (Types.PICKLED_BYTE_ARRAY(), [object()]),
        (None, [object()]),
    ],
)
def test_coerce_gives_the_list_itself_where_nothing_changes(type_info, values):
    assert coerce(values, type_info) is values


@pytest.mark.parametrize(
    ("type_info", "value", "back"),
    [
        (Types.INT(), True, 1),
        (Types.INT(), 1.9, 1),
        (Types.INT(), np.int64(3), 3),
        (Types.LONG(), Decimal(3), 3),
        (Types.BOOLEAN(), 2, True),
        (Types.BOOLEAN(), np.False_, False),
        (Types.DOUBLE(), 3, 3.0),
        (Types.DOUBLE(), Decimal("1.5"), 1.5),
        (Types.FLOAT(), 0.1, float(np.float32(0.1))),
        (Types.FLOAT(), 1e300, float("inf")),
        (Types.STRING(), np.str_("a"), "a"),
        (Types.BIG_DEC(), 5, Decimal(5)),
        (Types.BIG_DEC(), Decimal("-0"), Decimal(0)),
        (Types.BIG_INT(), 2.5, 2),
        (Types.SQL_DATE(), DAY, DAY.date()),
        (Types.SQL_TIME(), datetime.time(1, 2, 3, 456789), datetime.time(1, 2, 3, 456000)),
        (Types.SQL_TIMESTAMP(), DAY.replace(microsecond=1999), DAY.replace(microsecond=1000)),
        (Types.SQL_TIMESTAMP(), DAY.replace(tzinfo=UTC), DAY),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"a"), b"a"),
        (Types.LIST(Types.INT()), (1, 2.0), [1, 2]),
        (PAIR, ["a", True], ("a", 1)),
        (PAIR, Row("a", 1), ("a", 1)),
        (PAIR, Named("a", 1), ("a", 1)),
        (ROW, Row("a", 1), Row(word="a", count=1)),
        (ROW, Row(count=1, word="a", more=2), Row(word="a", count=1)),
        (ROW, ("a", 1), Row(word="a", count=1)),
        (ROW, {"word": "a"}, Row(word="a", count=None)),
        (Types.MAP(Types.STRING(), Types.INT()), {"n": 1.0, "m": 2}, {"m": 2, "n": 1}),
    ],
)
def test_values_that_come_back_as_others(type_info, value, back):
    for found in (
        coerce([value, None], type_info),
        from_arrow(to_arrow([value, None], type_info), type_info),
    ):
        assert repr(found[0]) == repr(back)
        assert type(found[0]) is type(back) or (isinstance(found[0], Row) and isinstance(back, Row))
        assert found[1] is None


@pytest.mark.parametrize(
    ("type_info", "value", "error", "message"),
    [
        (Types.INT(), "1", TypeError, r"must be Integer, got '1' of class str"),
        (
            Types.INT(),
            2**31,
            OverflowError,
            r"2147483648 of class int: it does not fit 32 bits",
        ),
        (Types.BYTE(), -129, OverflowError, r"-129"),
        (Types.LONG(), 2**63, OverflowError, r"64 bits"),
        (Types.INT(), float("nan"), ValueError, r"nan of class float"),
        (Types.BOOLEAN(), -1, OverflowError, r"must be Boolean, got -1 of class int"),
        (Types.BOOLEAN(), "a", TypeError, r"'a'"),
        (Types.STRING(), b"a", TypeError, r"must be String, got b'a' of class bytes"),
        (Types.STRING(), 1, TypeError, r"1 of class int"),
        (Types.STRING(), "\ud800", ValueError, r"surrogates"),
        (Types.DOUBLE(), "1.5", TypeError, r"must be Double, got '1.5' of class str"),
        (Types.DOUBLE(), 10**400, OverflowError, r"must be Double"),
        (Types.BIG_DEC(), "x", TypeError, r"'x'"),
        (Types.BIG_DEC(), Decimal("NaN"), ValueError, r"not finite"),
        (Types.SQL_DATE(), "2020-01-01", TypeError, r"must be DateTypeInfo, got '2020-01-01' of class str"),
        (Types.SQL_TIMESTAMP(), DAY.date(), TypeError, r"of class date"),
        (Types.INSTANT(), 5, TypeError, r"must be Instant, got 5 of class int"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1], TypeError, r"\[1\] of class list"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None], TypeError, r"must not be None"),
        (Types.LIST(Types.INT()), "ab", TypeError, r"must be ListTypeInfo<Integer>, got 'ab' of class str"),
        (Types.LIST(Types.INT()), ["x"], TypeError, r"must be Integer, got 'x' of class str"),
        (PAIR, ("a", "b"), TypeError, r"field f1: must be Integer, got 'b' of class str"),
        (PAIR, ("a",), ValueError, r"\('a',\) of class tuple: it has 1 fields"),
        (PAIR, ("a", 1, 2), ValueError, r"it has 3 fields"),
        (PAIR, {"a": 1}, TypeError, r"must be TupleTypeInfo\(String, Integer\)"),
        (ROW, Row("a"), ValueError, r"it has 1 fields"),
        (ROW, Row(word="a"), ValueError, r"\['count'\]"),
        (ROW, Row("a", "b"), TypeError, r"field count: must be .*, got 'b'"),
        (ROW, 5, TypeError, r"must be RowTypeInfo.*, got 5 of class int"),
        (
            Types.MAP(Types.STRING(), Types.INT()),
            [("a", 1)],
            TypeError,
            r"must be MapTypeInfo<String, Integer>",
        ),
        (Types.MAP(Types.STRING(), Types.INT()), {None: 1}, TypeError, r"keys must not be None"),
        (
            Types.MAP(Types.STRING(), Types.INT()),
            {"a": "b"},
            TypeError,
            r"must be Integer, got 'b' of class str",
        ),
        (
            Types.TUPLE([PAIR]),
            (("a", 2**40),),
            OverflowError,
            r"field f0: field f1: must be Integer, got 1099511627776",
        ),
    ],
)
def test_values_that_do_not_fit(type_info, value, error, message):
    with pytest.raises(error, match=message):
        to_arrow([None, value], type_info)
    if "surrogates" not in message:
        with pytest.raises(error, match=message):
            coerce([None, value], type_info)


def test_messages_about_long_values_are_short():
    with pytest.raises(TypeError) as caught:
        to_arrow(["x" * 5000], Types.INT())
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "type_info",
    [Types.PRIMITIVE_ARRAY(Types.STRING()), Types.BASIC_ARRAY(Types.LIST(Types.INT())), TypeInformation()],
)
def test_types_without_columns(type_info):
    for ask in (lambda: arrow_type(type_info), lambda: to_arrow([], type_info)):
        with pytest.raises(TypeError):
            ask()


def test_row_kinds_take_a_field_only_where_they_are_needed():
    inserted = to_arrow([Row("a", 1)], ROW)
    assert inserted.type == arrow_type(ROW)
    changed = to_arrow([Row("a", 1), Row.of_kind(RowKind.DELETE, "b", 2)], ROW)
    assert changed.type.field(2).name == ROW_KIND_FIELD
    kinds = [row.get_row_kind() for row in from_arrow(changed, ROW)]
    assert kinds == [RowKind.INSERT, RowKind.DELETE]


def test_rows_are_the_receivers_own():
    row = Row(word="a", count=1)
    (again,) = from_arrow(to_arrow([row], ROW), ROW)
    again["count"] = 2
    assert row.count == 1


def test_what_a_main_module_defines_travels_with_its_pickle():
    script: dict[str, Any] = {"__name__": "__main__"}
    exec("class Own:\n    def __init__(self, x):\n        self.x = x", script)
    array = to_arrow([script["Own"](5)], None)
    assert from_arrow(array, None)[0].x == 5
    assert b"_make_skeleton_class" in array[0].as_py()


def test_collection_of_garbage_goes_on_afterwards():
    assert gc.isenabled()
    from_arrow(to_arrow([1], Types.INT()), Types.INT())
    with pytest.raises(TypeError):
        coerce(["x"], Types.INT())
    assert gc.isenabled()
    gc.disable()
    try:
        coerce([1], Types.INT())
        assert not gc.isenabled()
    finally:
        gc.enable()
