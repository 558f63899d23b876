"""Rows in order of an owner and a number, sorted or by cells."""

import numpy as np
import pytest

from penstock.plans.frames.arrays import rows_in_order


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 1, 2, 0, 1],  # count up within each owner
        [7, 1, 3, 9, 0],  # with gaps, so that they are placed in cells
        [2, 1, 1, 0, 0],  # repeated
        [5, -1, 3, 2, 1],
        [1_000_000, 0, 1, 5, 2],  # too far apart for cells
    ],
)
def test_rows_are_those_of_a_sort(numbers):
    given = np.array(numbers)
    for owners in ([0, 0, 0, 1, 1], [1, 0, 1, 0, 1], [2, 2, 0, 0, 2], [0] * 5):
        of_rows = np.array(owners)
        assert rows_in_order(of_rows, given).tolist() == np.lexsort((given, of_rows)).tolist()


def test_no_rows_are_in_order():
    assert rows_in_order(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
