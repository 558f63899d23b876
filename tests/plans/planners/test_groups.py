"""Numbers of groups against loops over lists."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plans.frames.polars_frames import count_in_groups, first_of_equal, first_rows, number_in_turn

KEYS = st.lists(st.integers(0, 6), max_size=30)


@given(KEYS)
@settings(deadline=None, derandomize=True)
def test_the_first_of_equal_keys_is_found(keys):
    first = [keys.index(key) for key in keys]
    assert first_of_equal(np.array(keys, np.int64) << 40).tolist() == first
    assert first_rows(np.array(keys, np.int64)).tolist() == first


@given(KEYS)
@settings(deadline=None, derandomize=True)
def test_rows_before_in_the_same_group_are_counted(keys):
    counted = [keys[:row].count(key) for row, key in enumerate(keys)]
    assert count_in_groups(np.array(keys, np.int32), 7).tolist() == counted


@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=9), max_size=5))
@settings(deadline=None, derandomize=True)
def test_groups_are_numbered_anew_in_each_stretch(stretches):
    keys = [(number, key) for number, stretch in enumerate(stretches) for key in stretch]
    starts = np.cumsum([0, *map(len, stretches)])[:-1]
    numbers = [sorted(set(stretch), key=stretch.index).index(key) for stretch in stretches for key in stretch]
    first = np.array([keys.index(key) for key in keys], np.int64)
    assert number_in_turn(first, starts).tolist() == numbers
