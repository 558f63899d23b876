"""Values of collections become what PyFlink 2.3.0 makes of them in India's time zone, or are refused."""

import datetime
import time
from collections.abc import Iterator
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import TimeTypeInfo, Types
from penstock.operators.connectors.collection import CollectionSource, given_values

FIVE = datetime.timezone(datetime.timedelta(hours=5))
NOON = datetime.datetime(2024, 5, 1, 12, 30, 1, 123456)


@pytest.fixture(autouse=True)
def in_india(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    monkeypatch.setattr(TimeTypeInfo, "EPOCH_ORDINAL", (5 * 60 + 30) * 60 * 10**6)
    yield
    monkeypatch.undo()
    time.tzset()


def seen(value, type_info):
    """What a function sees of the value."""
    source = CollectionSource([value], type_info)
    (split,) = source.splits(1)[0]
    (chunk,) = source.read(split, None)  # type: ignore[arg-type]
    return chunk.values[0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "type_info", "expected"),
    [
        (NOON, Types.SQL_TIMESTAMP(), NOON.replace(microsecond=123000)),
        (
            NOON.replace(tzinfo=datetime.UTC),
            Types.SQL_TIMESTAMP(),
            datetime.datetime(2024, 5, 1, 18, 0, 1, 123000),
        ),
        (NOON.replace(tzinfo=FIVE), Types.SQL_TIMESTAMP(), datetime.datetime(2024, 5, 1, 13, 0, 1, 123000)),
        (
            datetime.datetime(2024, 11, 3, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=1),
            Types.SQL_TIMESTAMP(),
            datetime.datetime(2024, 11, 3, 12, 0),
        ),
        (datetime.time(12, 30, 1, 123456), Types.SQL_TIME(), datetime.time(12, 30, 1, 123000)),
        (
            datetime.time(12, 30, 1, 123456, tzinfo=FIVE),
            Types.SQL_TIME(),
            datetime.time(13, 0, 1, 123000),
        ),
        (datetime.time(12, 30, tzinfo=datetime.UTC), Types.SQL_TIME(), datetime.time(18, 0)),
        (datetime.time(1, 0, tzinfo=FIVE), Types.SQL_TIME(), datetime.time(1, 30)),
        (datetime.datetime(2024, 5, 1, 23, 30), Types.SQL_DATE(), datetime.date(2024, 5, 1)),
        (128, Types.BYTE(), -128),
        (-129, Types.BYTE(), 127),
        (300, Types.BYTE(), 44),
        (32768, Types.SHORT(), -32768),
        (2**31, Types.INT(), -(2**31)),
        (2**32 + 5, Types.INT(), 5),
        (0.1, Types.FLOAT(), 0.10000000149011612),
        (2.0, Types.INT(), 2),
        (1, Types.BOOLEAN(), True),
        (
            [NOON.replace(tzinfo=FIVE)],
            Types.LIST(Types.SQL_TIMESTAMP()),
            [datetime.datetime(2024, 5, 1, 13, 0, 1, 123000)],
        ),
        (
            Row(at=NOON.replace(tzinfo=FIVE), number=2**31),
            Types.ROW_NAMED(["number", "at"], [Types.INT(), Types.SQL_TIMESTAMP()]),
            Row(number=-(2**31), at=datetime.datetime(2024, 5, 1, 13, 0, 1, 123000)),
        ),
        (
            {NOON.replace(tzinfo=FIVE): 5},
            Types.MAP(Types.SQL_TIMESTAMP(), Types.INT()),
            {datetime.datetime(2024, 5, 1, 13, 0, 1, 123000): 5},
        ),
    ],
)
def test_values_are_those_of_pyflink(value, type_info, expected):
    assert seen(value, type_info) == expected
    assert type(seen(value, type_info)).__name__ == type(expected).__name__


@pytest.mark.parametrize(
    ("value", "type_info"),
    [
        (1.5, Types.INT()),
        (Decimal("1.9"), Types.LONG()),
        (2, Types.BOOLEAN()),
        ((1.5, "a"), Types.TUPLE([Types.INT(), Types.STRING()])),
        ([1.5], Types.LIST(Types.SHORT())),
        ({"a": 1.5}, Types.MAP(Types.STRING(), Types.INT())),
        (2**63, Types.LONG()),
    ],
)
def test_what_would_lose_a_part_is_refused(value, type_info):
    with pytest.raises((TypeError, OverflowError)):
        CollectionSource([value], type_info)


def test_plain_integers_are_not_copied():
    values = [1, 2, 3]
    assert given_values(values, Types.INT()) is values
