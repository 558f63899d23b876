"""The window classes and their byte forms."""

# mypy: disable-error-code="operator,type-arg,var-annotated"

import pickle
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.windows.trigger import MergingWindowAssigner
from penstock.operators.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    long_to_int_with_bit_mixing,
    mod_inverse,
)

END_OF_TIME = 2**63 - 1


class Collected(MergingWindowAssigner.MergeCallback):
    def __init__(self):
        self.merges = []

    def merge(self, to_be_merged, merge_result):
        self.merges.append((sorted(to_be_merged), merge_result))


def test_time_window():
    window = TimeWindow(1000, 2000)
    assert window.max_timestamp() == 1999
    assert window == TimeWindow(1000, 2000)
    assert hash(window) == hash(TimeWindow(1000, 2000))
    assert window != TimeWindow(1000, 2001)
    assert window != (1000, 2000)
    assert repr(window) == "TimeWindow(start=1000, end=2000)"
    assert window.intersects(TimeWindow(2000, 2500)), "windows that touch intersect"
    assert not window.intersects(TimeWindow(2001, 2500))
    assert not TimeWindow(2001, 2500).intersects(window)
    assert window.cover(TimeWindow(500, 1500)) == TimeWindow(500, 2000)
    assert pickle.loads(pickle.dumps(window)) == window


def test_order_of_time_windows():
    windows = [TimeWindow(1, 5), TimeWindow(0, 9), TimeWindow(1, 3)]
    assert sorted(windows) == [TimeWindow(0, 9), TimeWindow(1, 3), TimeWindow(1, 5)]
    assert TimeWindow(1, 5) <= TimeWindow(1, 5)
    with pytest.raises(Exception, match="TimeWindow"):
        _ = TimeWindow(1, 5) < 7


def test_count_and_global_windows():
    assert CountWindow(3) == CountWindow(3) != CountWindow(4)
    assert hash(CountWindow(3)) == hash(CountWindow(3))
    assert repr(CountWindow(3)) == "CountWindow(id=3)"
    assert GlobalWindow.get() == GlobalWindow()
    assert GlobalWindow.get() != CountWindow(0)
    assert hash(GlobalWindow()) == 0
    assert repr(GlobalWindow()) == "GlobalWindow"
    assert CountWindow(3).max_timestamp() == GlobalWindow().max_timestamp() == END_OF_TIME


@given(st.integers(-(10**14), 10**14), st.integers(1, 10**7), st.data())
def test_start_is_the_last_one_at_or_below_the_timestamp(timestamp, size, data):
    offset = data.draw(st.integers(-size + 1, size - 1))
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=12))
def test_merge_windows(spans):
    windows = [TimeWindow(start, start + length) for start, length in spans]
    collected = Collected()
    TimeWindow.merge_windows(windows, collected)
    # By half units that a window covers, its end included: what touches is connected.
    covered = {half for window in windows for half in range(2 * window.start, 2 * window.end + 1)}
    groups = {}
    for window in windows:
        first = 2 * window.start
        while first - 1 in covered:
            first -= 1
        groups.setdefault(first, set()).add(window)
    expected = [
        (
            sorted(group),
            TimeWindow(min(window.start for window in group), max(window.end for window in group)),
        )
        for _, group in sorted(groups.items())
        if len(group) > 1
    ]
    assert collected.merges == expected


@pytest.mark.parametrize(
    ("serializer", "window", "data"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, 10**13), bytes.fromhex("fffffffffffffffb000009184e72a000")),
        (CountWindowSerializer(), CountWindow(7), b"\0\0\0\0\0\0\0\7"),
        (GlobalWindowSerializer(), GlobalWindow(), b"\0"),
    ],
)
def test_byte_forms_are_those_of_pyflink(serializer, window, data):
    stream = BytesIO()
    serializer.serialize(window, stream)
    assert stream.getvalue() == data
    stream.seek(0)
    assert serializer.deserialize(stream) == window


def test_hash_helpers_have_the_values_of_pyflink():
    assert [mod_inverse(x) for x in (1, 3, 7, -5)] == [
        1,
        -559240533333333,
        -157250448822857142857142857,
        4597340948331008045875,
    ]
    assert [long_to_int_with_bit_mixing(x) for x in (0, 1, 5, -3)] == [
        0,
        147849196037467560671341166926513243621,
        739245978801580075080537957964831963804,
        295698392074935121378076186279865192010,
    ]


@given(st.integers(-(2**40), 2**40).map(lambda x: 2 * x + 1))
def test_mod_inverse_is_one(x):
    assert x * mod_inverse(x) % 2**24 == 1
