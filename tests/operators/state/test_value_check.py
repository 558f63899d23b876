"""The check of values takes and refuses what the coders of PyFlink 2.3.0 do: the answers are theirs."""

import datetime

import pytest

from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.state.value_check import value_check

ROW = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
TUPLE = Types.TUPLE([Types.INT(), Types.STRING()])
DAY, TIME = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)


@pytest.mark.parametrize(
    ("type_info", "taken", "refused"),
    [
        (Types.INSTANT(), [None, Instant(1, 2)], [1, "a", TIME]),
        (Types.SQL_DATE(), [DAY, TIME], [None, 1, "a", datetime.time(1)]),
        (Types.SQL_TIME(), [datetime.time(1), TIME], [None, 1, DAY]),
        (Types.SQL_TIMESTAMP(), [TIME], [None, 1, DAY, datetime.time(1)]),
        (ROW, [Row(1, "a"), Row(None, "a"), Row(a=1, b="a")],
         [None, 1, (1, "a"), [1, "a"], {"a": 1}, Row(1), Row("a", 1), Row(a=1), Row(c=1, d="a")]),
        (Types.ROW([Types.INT(), Types.STRING()]), [Row(1, "a")], [Row(a=1, b="a")]),
        (TUPLE, [(1, "a"), (1, "a", 2)], [None, (None, "a"), [1, "a"], Row(1, "a"), (1,), ("a", 1)]),
        (Types.ROW([Types.TUPLE([Types.INT()])]), [Row((1,)), Row(None)], [Row((None,)), Row([1]), ((1,),)]),
        (Types.LIST(Types.INT()), [[], [1], [None]], [None, (1,), ["a"], {}, "a"]),
        (Types.BASIC_ARRAY(Types.INT()), [[], [1], [None]], [None, (1,), ["a"]]),
        (Types.OBJECT_ARRAY(Types.STRING()), [[], ["a"], [None]], [None, [1], ("a",)]),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [[], [1]], [None, [None], ["a"], (1,)]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", bytearray(b"a")], [None, [1], "a"]),
        (Types.MAP(Types.STRING(), Types.INT()), [{}, {"a": 1}, {"a": None}],
         [None, {None: 1}, {1: 1}, {"a": "b"}, [("a", 1)]]),
    ],
)  # fmt: skip
def test_as_the_coders(type_info, taken, refused):
    check = value_check(type_info)
    assert check is not None
    for value in taken:
        check(value)
    for value in refused:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            check(value)


def test_pickled_values_are_not_checked():
    assert value_check(None) is None
    assert value_check(Types.PICKLED_BYTE_ARRAY()) is None
