"""Hashes, key groups and values against what the real PyFlink 2.3 made of them."""

import numpy as np
import pytest

from penstock.operators.common.arrow_columns import coerce, from_arrow, to_arrow
from penstock.operators.common.basic_types import PickledBytesTypeInfo
from penstock.operators.common.java_hash import key_hashes, pickled_key_hashes
from penstock.operators.common.key_groups import key_groups, key_groups_of_column
from tests.engine.pyflink.common.trips import kind_of, read_trips

TRIPS = read_trips()
by_type = pytest.mark.parametrize("text", TRIPS)


@by_type
def test_hashes(text):
    trips = TRIPS[text]
    if isinstance(trips.type_info, PickledBytesTypeInfo):
        hashes = pickled_key_hashes(trips.values)
    else:
        hashes = key_hashes(to_arrow(trips.values, trips.type_info), trips.type_info)
    assert hashes.view(np.int32).tolist() == trips.hashes


@by_type
def test_key_groups(text):
    trips = TRIPS[text]
    assert key_groups(trips.values, trips.type_info, 32768) == trips.groups
    assert [key_groups([value], trips.type_info, 32768)[0] for value in trips.values] == trips.groups


@pytest.mark.parametrize("text", [text for text in TRIPS if "PICKLED" not in text])
def test_key_groups_of_slices_of_columns(text):
    trips = TRIPS[text]
    column = to_arrow([None, *trips.values, *trips.values], trips.type_info)
    for part in (column.slice(1, len(trips.values)), column.slice(1 + len(trips.values))):
        assert key_groups_of_column(part, trips.type_info, 32768).tolist() == trips.groups


@by_type
def test_values_come_back(text):
    trips = TRIPS[text]
    for found in (
        from_arrow(to_arrow(trips.values, trips.type_info), trips.type_info),
        coerce(trips.values, trips.type_info),
    ):
        assert [repr(value) for value in found] == trips.reprs
        assert [kind_of(value) for value in found] == trips.kinds


@by_type
def test_what_came_back_stays_as_it_is(text):
    trips = TRIPS[text]
    once = coerce(trips.values, trips.type_info)
    again = coerce(once, trips.type_info)
    assert [repr(value) for value in again] == trips.reprs
    if "FLOAT" not in text:
        assert again is once


@by_type
def test_values_come_back_among_nulls_and_from_slices(text):
    trips = TRIPS[text]
    values = [None, *trips.values, None, *trips.values]
    column = to_arrow(values, trips.type_info)
    assert repr(from_arrow(column, trips.type_info)) == repr(coerce(values, trips.type_info))
    rest = from_arrow(column.slice(len(trips.values) + 2), trips.type_info)
    assert [repr(value) for value in rest] == trips.reprs
