"""The window operator against an oracle that groups all records: nothing is late here."""

# mypy: disable-error-code="var-annotated"

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.window_functions import buffered
from tests.operator_harness import Record, run
from tests.operators.windows.window_jobs import KINDS, Show, counted, operator, result_of, stamped

KEYS = st.sampled_from(["a", "b", 1, 2, True, 1.0, ("t", 1), None])
STEPS = st.lists(st.tuples(KEYS, st.integers(-50, 120)), max_size=25).map(counted)
MODES = [(batch, by_trigger) for batch in (False, True) for by_trigger in (False, True)]


def in_fixed_windows(values, size, slide, offset):
    windows = {}
    for value in values:
        for start in range(value[1] - size + 1, value[1] + 1):
            if (start - offset) % slide == 0:
                key = (type(value[0]).__name__, value[0], start, start + size)
                windows.setdefault(key, []).append(value)
    return windows


def in_sessions(values, gap):
    windows = {}
    by_key = {}
    for value in sorted(values, key=lambda value: value[1]):
        by_key.setdefault((type(value[0]).__name__, value[0]), []).append(value)
    for key, some in by_key.items():
        session = [some[0]]
        for value in some[1:]:
            if value[1] - session[-1][1] > gap:
                windows[*key, session[0][1], session[-1][1] + gap] = session
                session = []
            session.append(value)
        windows[*key, session[0][1], session[-1][1] + gap] = session
    return windows


def in_arrival_order(windows, batch):
    order = (lambda value: (value[1], value[2])) if batch else (lambda value: value[2])
    return {window: sorted(values, key=order) for window, values in windows.items()}


def text(results):
    return sorted(map(repr, results))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("batch", "by_trigger"), MODES)
@settings(max_examples=25, deadline=None)
@given(values=STEPS, size=st.integers(1, 30), slide=st.integers(1, 30), shift=st.integers(-9, 9))
def test_sliding(kind, batch, by_trigger, values, size, slide, shift):
    shift %= slide
    assigner = SlidingEventTimeWindows(size, slide, shift)
    recorded = run(operator(assigner, KINDS[kind](), by_trigger=by_trigger), stamped(values), batch=batch)
    windows = in_arrival_order(in_fixed_windows(values, size, slide, shift), batch)
    expected = [
        (result_of(kind, key, start, end, some), end - 1) for (_, key, start, end), some in windows.items()
    ]
    assert text(recorded.stamped) == text(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("batch", "by_trigger"), MODES)
@settings(max_examples=25, deadline=None)
@given(values=STEPS, size=st.integers(1, 40))
def test_tumbling(kind, batch, by_trigger, values, size):
    made = operator(TumblingEventTimeWindows(size, 0), KINDS[kind](), by_trigger=by_trigger)
    windows = in_arrival_order(in_fixed_windows(values, size, size, 0), batch)
    expected = [
        (result_of(kind, key, start, end, some), end - 1) for (_, key, start, end), some in windows.items()
    ]
    assert text(run(made, stamped(values), batch=batch).stamped) == text(expected)


@pytest.mark.parametrize(("batch", "by_trigger"), MODES)
@settings(max_examples=60, deadline=None)
@given(values=STEPS, gap=st.integers(1, 30))
def test_sessions_under_any_arrival_order(batch, by_trigger, values, gap):
    made = operator(EventTimeSessionWindows(gap), KINDS["process"](), by_trigger=by_trigger)
    recorded = run(made, stamped(values), batch=batch)
    expected = [
        (key, start, end, sorted(some, key=lambda value: value[2]), end - 1)
        for (_, key, start, end), some in in_sessions(values, gap).items()
    ]
    # Merging changes the order in which a session's records are listed.
    got = [(*one[:3], sorted(one[3], key=lambda value: value[2]), stamp) for one, stamp in recorded.stamped]
    assert text(got) == text(expected)


@pytest.mark.parametrize("by_trigger", [False, True])
def test_windows_fire_in_order_of_time(by_trigger):
    values = counted([("a", 25), ("b", 3), ("a", 3), ("a", 12), ("c", 21)])
    made = operator(TumblingEventTimeWindows(10, 0), KINDS["process"](), by_trigger=by_trigger)
    recorded = run(made, stamped(values))
    assert [(key, start) for key, start, *_ in recorded.values] == [
        ("b", 0),
        ("a", 0),
        ("a", 10),
        ("a", 20),
        ("c", 20),
    ]


@pytest.mark.parametrize("by_trigger", [False, True])
def test_results_come_before_the_watermark(by_trigger):
    made = operator(TumblingEventTimeWindows(10, 0), KINDS["aggregate"](), by_trigger=by_trigger)
    events = run(made, [Record(("a", 3, 0), 3)]).events
    assert events == [("record", "0", 9), ("watermark", 2**63 - 1)]


@pytest.mark.parametrize("by_trigger", [False, True])
def test_a_record_without_timestamp_is_named(by_trigger):
    made = operator(TumblingEventTimeWindows(10, 0), KINDS["reduce"](), by_trigger=by_trigger)
    with pytest.raises(Exception, match=r"'b', None.*assign_timestamps_and_watermarks|assign_timestamps"):
        run(made, [Record(("a", 3, 0), 3), Record(("b", None, 1))])


@pytest.mark.parametrize("by_trigger", [False, True])
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10, 0), EventTimeSessionWindows(10)])
def test_a_failing_record_is_named(by_trigger, assigner):
    made = operator(assigner, KINDS["aggregate"](), by_trigger=by_trigger)
    with pytest.raises(Exception, match=r"\('a', 4\)") as caught:
        run(made, [Record(("a", 3, 0), 3), Record(("a", 4), 4)])
    assert "tuple index out of range" in str(caught.value)


@pytest.mark.parametrize("by_trigger", [False, True])
def test_a_failing_window_is_named(by_trigger):
    class Fails(Show):
        def process(self, key, context, elements):
            raise ValueError("no")

    made = operator(TumblingEventTimeWindows(10, 0), buffered(Fails()), by_trigger=by_trigger)
    with pytest.raises(Exception, match=r"(?s)ValueError: no.*'key'"):
        run(made, [Record(("key", 3, 0), 3)])


def test_negative_lateness_is_refused():
    with pytest.raises(ValueError, match="-1 ms"):
        operator(TumblingEventTimeWindows(10, 0), KINDS["reduce"](), allowed_lateness_milliseconds=-1)
