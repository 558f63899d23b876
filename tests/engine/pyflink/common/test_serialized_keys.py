import collections
import datetime
import enum
import math
import pickle
import re
import zoneinfo
from array import array
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.common.arrow_columns import from_arrow, to_arrow
from penstock.operators.common.row import Row, RowKind
from penstock.operators.common.serialized_keys import dictionary_key, serialized_key
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import Types

STEADY = settings(derandomize=True, deadline=None)
Pair = namedtuple("Pair", "a b")


class Colour(enum.IntEnum):
    RED = 1


class Word(str):
    pass


class WithState:
    def __init__(self, value):
        self.value = value


class WithHash(WithState):
    def __eq__(self, other):
        return isinstance(other, WithHash) and self.value == other.value

    def __hash__(self):
        return hash(self.value)


class AllEqual(WithState):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def noted(text, note):
    word = Word(text)
    vars(word)["note"] = note
    return word


ordered = collections.OrderedDict


class WithSlots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


#: No two of these are the same key.
DIFFERENT: list[Any] = [
    0, 0.0, -0.0, 1, 1.0, True, False, Decimal(1), Decimal("1.0"), 1 + 0j, Colour.RED, np.int64(1),
    np.float64(1), np.True_, 1.5, Decimal("1.5"), float("nan"), float("inf"), None, "1", Word("1"), b"1",
    bytearray(b"1"), "", (), (1,), (1.0,), (True,), [1], [True], ((1,),), Pair(1, 2), (1, 2), [1, 2], {1: 2},
    {1: True}, {1, 2}, frozenset({1, 2}), Row(1, 2), Row(a=1, b=2), Row(a=1, c=2),
    Row.of_kind(RowKind.DELETE, 1, 2), Row(1, True), array("i", [1]), array("q", [1]), np.array([1]),
    np.array([1.0]), np.array([[1]]), np.array([1], dtype=object), datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1), Instant(1, 0), WithState(1), WithState(True), WithHash(1), WithSlots(1),
    int, len, ("penstock.operators.common.row.Row", 0, None, 1, 2), (..., "builtins.set", b"1"), {2: 1, 1: 2},
    {1: 2, 2: 1},
    datetime.datetime(2020, 1, 1, fold=1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2020, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC")), datetime.time(1),
    datetime.time(1, tzinfo=datetime.UTC),
    datetime.time(2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), Fraction(1),
    partial(len, ()), partial(int, 1), AllEqual(1), AllEqual(2), (AllEqual(1), 1), (AllEqual(2), 1), Ellipsis,
    noted("1", 1), noted("1", 2), ordered(a=1, b=2), ordered(b=2, a=1),
]  # fmt: skip


def test_different_keys_stay_different():
    forms = [dictionary_key(key) for key in DIFFERENT]
    assert len(set(forms)) == len(forms)


def test_different_keys_have_different_pickles():
    pickles = [serialized_key(key) for key in DIFFERENT]
    assert len(set(pickles)) == len(pickles)


@pytest.mark.parametrize("key", DIFFERENT, ids=lambda key: re.sub(r" at 0x[0-9a-f]+", "", repr(key)))
def test_copies_of_a_key_are_the_same_key(key):
    again = pickle.loads(pickle.dumps(key))
    assert dictionary_key(again) == dictionary_key(key)
    assert hash(dictionary_key(again)) == hash(dictionary_key(key))
    assert serialized_key(again) == serialized_key(key)


@pytest.mark.parametrize("key", ["a", 5, b"x", None, 1.5, ("a", 1), (), (1, ("b",)), Instant(1, 2)])
def test_plain_keys_are_their_own_form(key):
    assert dictionary_key(key) is key or key == (1, ("b",))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3)
KEYS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.lists(inner, max_size=3).map(lambda values: Row(*values))
    ),
    max_leaves=6,
)


def same(one, other):
    """Whether two keys are the same, by their classes and values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, (list, tuple, Row)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@STEADY
@given(KEYS, KEYS)
def test_equality_is_that_of_classes_and_values(one, other):
    assert (dictionary_key(one) == dictionary_key(other)) == same(one, other)
    assert (serialized_key(one) == serialized_key(other)) == same(one, other)


@STEADY
@given(KEYS)
def test_forms_are_hashable_and_stable(key):
    again = pickle.loads(pickle.dumps(key))
    assert hash(dictionary_key(key)) == hash(dictionary_key(again))
    assert dictionary_key(key) == dictionary_key(again)
    assert serialized_key(key) == serialized_key(again)


def test_a_row_of_a_declared_type_is_the_same_key_as_one_that_a_function_makes():
    row = Row(a="x", b=1)
    declared = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])
    (decoded,) = from_arrow(to_arrow([row], declared), declared)
    assert serialized_key(decoded) == serialized_key(row)
    assert serialized_key((decoded,)) == serialized_key((row,))
