"""Texts that PyFlink 2.3.0 printed, or wrote with Encoder.simple_string_encoder."""

import datetime
from decimal import Decimal

import pytest

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.sink import PrintSink
from penstock.operators.formats.java_text import java_text, java_text_of_any, printed_text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1.0"),
        (1e10, "1.0E10"),
        (1.5e-7, "1.5E-7"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (123456789.123, "1.23456789123E8"),
        (9999999.0, "9999999.0"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (-0.0, "-0.0"),
        (1e22, "1.0E22"),
        (5e-324, "4.9E-324"),
        (1 / 3, "0.3333333333333333"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_doubles(value, expected):
    assert java_text(Types.DOUBLE())(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0.1"),
        (1e10, "1.0E10"),
        (3.4e38, "3.4E38"),
        (1 / 3, "0.33333334"),
        (16777216.0, "1.6777216E7"),
        (1e-5, "1.0E-5"),
    ],
)
def test_floats(value, expected):
    assert java_text(Types.FLOAT())(value) == expected


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.LONG(), -(2**40), "-1099511627776"),
        (Types.BOOLEAN(), True, "true"),
        (Types.STRING(), "a b", "a b"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.BIG_DEC(), Decimal("1E+10"), "1E+10"),
        (Types.SQL_DATE(), datetime.date(2024, 2, 3), "2024-02-03"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3, 456000), "01:02:03"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 3, 4, 5, 6), "2024-02-03 04:05:06.0"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 3, 4, 5, 6, 120000), "2024-02-03 04:05:06.12"),
        (Types.INSTANT(), Instant(1, 500_000_000), "1970-01-01T00:00:01.500Z"),
        (Types.INSTANT(), Instant(1, 0), "1970-01-01T00:00:01Z"),
        (Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()]), ("a", 1, 2.0), "(a,1,2.0)"),
        (
            Types.TUPLE([Types.TUPLE([Types.STRING(), Types.INT()]), Types.LIST(Types.STRING())]),
            (("a", 1), ["x", "y"]),
            "((a,1),[x, y])",
        ),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 2, "b": 1}, "{a=2, b=1}"),
        (
            Types.ROW([Types.STRING(), Types.DOUBLE(), Types.INT(), Types.PRIMITIVE_ARRAY(Types.INT())]),
            Row("a", 1.0, None, [1, 2]),
            "+I[a, 1.0, null, [1, 2]]",
        ),
    ],
)
def test_java_text(type_info, value, expected):
    assert java_text(type_info)(value) == expected
    if type_info != Types.SQL_DATE() and not isinstance(value, float):
        assert java_text_of_any(value) == expected


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.ROW([Types.STRING(), Types.INT(), Types.DOUBLE()]), Row("a", 1, 2.0), "+I[a,1,2.0]"),
        (Types.ROW([Types.STRING(), Types.INT()]), Row(None, None), "+I[None,None]"),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.DELETE, 1), "-D[1]"),
        (
            Types.ROW([Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.LONG()), Types.BOOLEAN()]),
            Row(["a"], {"x": 1}, True),
            "+I[['a'],{'x': 1},True]",
        ),
        (Types.ROW([Types.STRING(), Types.ROW([Types.INT()])]), Row("a", Row(c=3)), "+I[a,Row(c=3)]"),
        (None, ("a", 1.0), "('a', 1.0)"),
        (Types.PICKLED_BYTE_ARRAY(), {"a": None}, "{'a': None}"),
        (None, Row("a", 1), "<Row('a', 1)>"),
        (None, None, "None"),
        (Types.TUPLE([Types.STRING(), Types.BOOLEAN()]), ("a", True), "(a,true)"),
        (Types.BOOLEAN(), True, "true"),
    ],
)
def test_printed_text(type_info, value, expected):
    assert printed_text(type_info)(value) == expected


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [(None, 1, "7"), (None, 4, "3> 7"), ("sink", 1, "sink> 7"), ("sink", 4, "sink:3> 7")],
)
def test_prefixes(identifier, parallelism, expected):
    sink = PrintSink(identifier, Types.INT())
    assert sink.lines([7], OperatorContext(subtask=2, parallelism=parallelism)) == [expected]
