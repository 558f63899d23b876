"""Window join and coGroup against nested loops."""

# mypy: disable-error-code="arg-type,method-assign,var-annotated"

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.interval_join import (
    CoGroupFunction,
    CoGroupOperator,
    FlatJoinFunction,
    IntervalJoinOperator,
    JoinFunction,
    WindowJoinOperator,
)
from penstock.operators.windows.trigger import SessionWindowTimeGapExtractor
from penstock.operators.windows.triggers import EventTimeTrigger
from tests.operator_harness import Record, Watermark, run
from tests.operators.windows.two_inputs import MODES, STEPS, Numbers, key_of, records, sides


class Pair(JoinFunction):
    def join(self, first, second):
        return (first, second)


class Both(FlatJoinFunction):
    def join(self, first, second):
        if first[2] < second[2]:
            yield (first[2], second[2])
            yield (second[2], first[2])


class Sizes(CoGroupFunction):
    def co_group(self, first, second):
        return [(sorted(one[2] for one in first), sorted(one[2] for one in second))]


def windowed(kind, assigner, function, **settings):
    return kind(assigner, EventTimeTrigger.create(), key_of, key_of, function, **settings)


@MODES
@settings(max_examples=60, deadline=None)
@given(steps=STEPS, size=st.integers(1, 20))
def test_window_join(batch, steps, size):
    inputs = records(steps)
    left, right = sides(inputs)
    expected = [
        ((one, other), one[1] // size * size + size - 1)
        for one in left
        for other in right
        if one[0] == other[0] and one[1] // size == other[1] // size
    ]
    for function in (Pair(), lambda first, second: (first, second)):
        made = windowed(WindowJoinOperator, TumblingEventTimeWindows(size, 0), function)
        assert sorted(run(made, inputs, batch=batch).stamped) == sorted(expected)


@MODES
def test_flat_window_join(batch):
    inputs = records([(1, "a", 1), (2, "a", 2), (1, "a", 3), (2, "b", 3)])
    made = windowed(WindowJoinOperator, TumblingEventTimeWindows(10, 0), Both())
    assert run(made, inputs, batch=batch).stamped == [((0, 1), 9), ((1, 0), 9)]


@MODES
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_co_group_in_sliding_windows(batch, steps):
    inputs = records(steps)
    left, right = sides(inputs)
    expected = []
    for key in "abc":
        for start in range(-5, 45, 5):
            first, second = (
                sorted(one[2] for one in side if one[0] == key and start <= one[1] < start + 10)
                for side in (left, right)
            )
            if first or second:
                expected.append(((first, second), start + 9))
    made = windowed(CoGroupOperator, SlidingEventTimeWindows(10, 5, 0), Sizes())
    assert sorted(run(made, inputs, batch=batch).stamped) == sorted(expected)


class GapOfSide(SessionWindowTimeGapExtractor):
    """Assigners of joined streams see which input a record is of."""

    def extract(self, element):
        assert element.is_one() != element.is_two()
        assert (element.get_one() is None) != (element.get_two() is None)
        return 5 if element.is_one() else 20


@MODES
def test_co_group_in_sessions_with_a_gap_of_each_input(batch):
    inputs = records([(1, "a", 0), (1, "a", 6), (2, "a", 20), (1, "a", 39)])
    assigner = EventTimeSessionWindows.with_dynamic_gap(GapOfSide())
    made = windowed(CoGroupOperator, assigner, lambda first, second: [(len(first), len(second))])
    assert run(made, inputs, batch=batch).stamped == [((1, 0), 4), ((1, 0), 10), ((1, 1), 43)]


def test_late_records_of_a_window_join():
    made = windowed(
        WindowJoinOperator, TumblingEventTimeWindows(10, 0), Pair(), allowed_lateness_milliseconds=5
    )
    steps = [
        Record(("a", 1, "l"), 1),
        Record(("a", 2, "r"), 2, 2),
        Watermark(9),
        Record(("a", 3, "late"), 3, 2),
        Watermark(20),
        Record(("a", 4, "too late"), 4),
    ]
    assert [(one[2], other[2]) for one, other in run(made, steps).values] == [
        ("l", "r"),
        ("l", "r"),
        ("l", "late"),
    ]


def test_a_failing_record_of_a_join_is_named():
    def fail(first, second):
        raise ValueError("no")

    made = windowed(CoGroupOperator, TumblingEventTimeWindows(10, 0), fail)
    with pytest.raises(Exception, match=r"(?s)ValueError: no.*'a'"):
        run(made, records([(1, "a", 1)]))


def test_functions_that_are_none():
    for kind in (WindowJoinOperator, CoGroupOperator):
        with pytest.raises(TypeError):
            windowed(kind, TumblingEventTimeWindows(10, 0), object())
    with pytest.raises(TypeError):
        IntervalJoinOperator(key_of, key_of, object(), 0, 1)


def test_functions_of_joins_are_opened_and_closed():
    calls = []

    class Watched(Numbers):
        def open(self, runtime_context):
            calls.append(runtime_context.get_task_name())

        def close(self):
            calls.append("close")

    class WatchedPair(Pair, Watched):
        pass

    run(IntervalJoinOperator(key_of, key_of, Watched(), 0, 1), [], task_name="interval")
    run(windowed(WindowJoinOperator, TumblingEventTimeWindows(10, 0), WatchedPair()), [], task_name="window")
    assert calls == ["interval", "close", "window", "close"]
