"""sum, min, max, min_by and max_by of records, against the plainest way to say what they are."""

import pickle
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.common.row import Row
from penstock.operators.records.aggregate_batches import FieldAggregate, Kind
from penstock.operators.records.record_batches import Projection

RECORDS = st.lists(st.tuples(st.text(max_size=2), st.integers(-9, 9), st.integers()), min_size=1, max_size=8)


def expected(kind: Kind, records: list[tuple[Any, ...]], field: int) -> tuple[Any, ...]:
    values = [record[field] for record in records]
    if kind == "min_by":
        return next(record for record in records if record[field] == min(values))
    if kind == "max_by":
        return next(record for record in records if record[field] == max(values))
    value = sum(values) if kind == "sum" else min(values) if kind == "min" else max(values)
    return (*records[0][:field], value, *records[0][field + 1 :])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sum", "min", "max", "min_by", "max_by"])
@given(records=RECORDS)
def test_tuples_lists_and_rows(kind: Kind, records: list[tuple[Any, ...]]) -> None:
    wanted = expected(kind, records, 1)
    assert reduce(FieldAggregate(kind, 1), records) == wanted
    lists = [list(record) for record in records]
    assert reduce(FieldAggregate(kind, 1), lists) == list(wanted)
    assert lists == [list(record) for record in records]
    rows = [Row(s=record[0], n=record[1], m=record[2]) for record in records]
    assert reduce(FieldAggregate(kind, "n"), rows) == Row(s=wanted[0], n=wanted[1], m=wanted[2])
    assert [row["n"] for row in rows] == [record[1] for record in records]


@pytest.mark.parametrize(
    ("kind", "wanted"), [("sum", 6), ("min", 1), ("max", 3), ("min_by", 1), ("max_by", 3)]
)
def test_values_without_fields(kind: Kind, wanted: int) -> None:
    assert reduce(FieldAggregate(kind, 0), [2, 3, 1]) == wanted
    with pytest.raises(TypeError, match="field must be 0, since int values have no fields, got 1"):
        FieldAggregate(kind, 1)(1, 2)


def test_a_field_is_a_number_or_a_name() -> None:
    with pytest.raises(TypeError, match=r"a number or a name"):
        FieldAggregate("sum", 1.5)  # type: ignore[arg-type]


def test_used_aggregates_can_be_pickled() -> None:
    aggregate = FieldAggregate("max", 1)
    aggregate((1, 1), (1, 2))
    assert pickle.loads(pickle.dumps(aggregate))((0, 5), (0, 4)) == (0, 5)


def test_projection() -> None:
    assert Projection([2, 0, 0])(("a", "b", "c")) == ("c", "a", "a")
    assert Projection([1])(("a", "b", "c")) == ("b",)
    assert pickle.loads(pickle.dumps(Projection([1])))(("a", "b")) == ("b",)
