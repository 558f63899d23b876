"""Assigners against arithmetic, and their settings."""

# mypy: disable-error-code="arg-type,var-annotated"

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.common.time import Time
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.trigger import SessionWindowTimeGapExtractor
from penstock.operators.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from penstock.operators.windows.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
)

TIMES = st.integers(-(10**6), 10**6)


class At:
    """A context whose clock stands still, with the state of one key."""

    def __init__(self, now=0):
        self.now, self.states = now, {}

    def get_current_processing_time(self):
        return self.now

    def get_runtime_context(self):
        return self

    def get_state(self, descriptor):
        return self.states.setdefault(descriptor.get_name(), Value())


class Value:
    def __init__(self):
        self.kept = None

    def value(self):
        return self.kept

    def update(self, value):
        self.kept = value


class Length(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return len(element)


@given(TIMES, st.integers(1, 5000), st.data())
def test_tumbling(timestamp, size, data):
    offset = data.draw(st.integers(-size + 1, size - 1))
    (window,) = TumblingEventTimeWindows(size, offset).assign_windows(None, timestamp, None)
    assert window.start <= timestamp < window.end == window.start + size
    assert (window.start - offset) % size == 0
    assert TumblingProcessingTimeWindows(size, offset).assign_windows(None, 0, At(timestamp)) == [window]


@given(TIMES, st.integers(1, 500), st.integers(1, 500), st.data())
def test_sliding(timestamp, size, slide, data):
    offset = data.draw(st.integers(-slide + 1, slide - 1))
    windows = SlidingEventTimeWindows(size, slide, offset).assign_windows(None, timestamp, None)
    starts = range(timestamp, timestamp - size, -1)
    assert windows == [TimeWindow(start, start + size) for start in starts if (start - offset) % slide == 0]
    assert SlidingProcessingTimeWindows(size, slide, offset).assign_windows(None, 0, At(timestamp)) == windows


def test_sessions():
    assert EventTimeSessionWindows.with_gap(Time.seconds(2)).assign_windows("x", 7, None) == [
        TimeWindow(7, 2007)
    ]
    assert ProcessingTimeSessionWindows.with_gap(Time.seconds(2)).assign_windows("x", 7, At(50)) == [
        TimeWindow(50, 2050)
    ]
    by_event = EventTimeSessionWindows.with_dynamic_gap(Length())
    by_clock = ProcessingTimeSessionWindows.with_dynamic_gap(Length())
    assert isinstance(by_event, DynamicEventTimeSessionWindows)
    assert isinstance(by_clock, DynamicProcessingTimeSessionWindows)
    assert by_event.assign_windows("four", 7, None) == [TimeWindow(7, 11)]
    assert by_clock.assign_windows("four", 7, At(50)) == [TimeWindow(50, 54)]
    for assigner in (by_event, by_clock):
        with pytest.raises(Exception, match="gap"):
            assigner.assign_windows("", 7, At())


@given(st.integers(1, 9), st.integers(1, 60))
def test_count_tumbling(size, count):
    assigner, context = CountTumblingWindowAssigner.of(size), At()
    assigned = [assigner.assign_windows(None, 0, context) for _ in range(count)]
    assert assigned == [[CountWindow(number // size)] for number in range(count)]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 60))
def test_count_sliding(size, slide, count):
    assigner, context = CountSlidingWindowAssigner.of(size, slide), At()
    for number in range(count):
        holding = [i for i in range(number + 1) if i * slide <= number < i * slide + size]
        assert assigner.assign_windows(None, 0, context) == [CountWindow(i) for i in reversed(holding)]


def test_global():
    assert GlobalWindows.create().assign_windows(None, 5, None) == [GlobalWindow.get()]


@pytest.mark.parametrize(
    ("assigner", "trigger", "serializer", "event_time", "text"),
    [
        (
            TumblingEventTimeWindows.of(Time.seconds(5)),
            EventTimeTrigger,
            TimeWindowSerializer,
            True,
            "TumblingEventTimeWindows(5000, 0)",
        ),
        (
            TumblingProcessingTimeWindows.of(Time.seconds(5), Time.seconds(1)),
            ProcessingTimeTrigger,
            TimeWindowSerializer,
            False,
            "TumblingProcessingTimeWindows(5000, 1000)",
        ),
        (
            SlidingEventTimeWindows.of(Time.seconds(5), Time.seconds(2)),
            EventTimeTrigger,
            TimeWindowSerializer,
            True,
            "SlidingEventTimeWindows(5000, 2000, 0)",
        ),
        (
            SlidingProcessingTimeWindows.of(Time.seconds(5), Time.seconds(2), Time.seconds(1)),
            ProcessingTimeTrigger,
            TimeWindowSerializer,
            False,
            "SlidingProcessingTimeWindows(5000, 2000, 1000)",
        ),
        (
            EventTimeSessionWindows.with_gap(Time.seconds(5)),
            EventTimeTrigger,
            TimeWindowSerializer,
            True,
            "EventTimeSessionWindows(5000)",
        ),
        (
            ProcessingTimeSessionWindows.with_gap(Time.seconds(5)),
            ProcessingTimeTrigger,
            TimeWindowSerializer,
            False,
            "ProcessingTimeSessionWindows(5000)",
        ),
        (
            DynamicEventTimeSessionWindows.with_dynamic_gap(Length()),
            EventTimeTrigger,
            TimeWindowSerializer,
            True,
            "DynamicEventTimeSessionWindows(0)",
        ),
        (
            DynamicProcessingTimeSessionWindows.with_dynamic_gap(Length()),
            ProcessingTimeTrigger,
            TimeWindowSerializer,
            False,
            "DynamicProcessingTimeSessionWindows(0)",
        ),
        (
            CountTumblingWindowAssigner.of(3),
            CountTrigger,
            CountWindowSerializer,
            False,
            "CountTumblingWindowAssigner(3)",
        ),
        (
            CountSlidingWindowAssigner.of(3, 2),
            CountTrigger,
            CountWindowSerializer,
            False,
            "CountSlidingWindowAssigner(3, 2)",
        ),
        (GlobalWindows.create(), NeverTrigger, GlobalWindowSerializer, False, "GlobalWindows()"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_goes_with_an_assigner(assigner, trigger, serializer, event_time, text):
    assert type(assigner.get_default_trigger(None)) is trigger
    assert type(assigner.get_window_serializer()) is serializer
    assert assigner.is_event_time() is event_time
    assert repr(assigner) == text


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(Time.seconds(1), Time.seconds(-1)),
        lambda: TumblingProcessingTimeWindows.of(Time.milliseconds(0)),
        lambda: SlidingEventTimeWindows.of(Time.seconds(5), Time.seconds(1), Time.seconds(1)),
        lambda: SlidingProcessingTimeWindows.of(Time.seconds(0), Time.seconds(1)),
        lambda: EventTimeSessionWindows.with_gap(Time.seconds(0)),
        lambda: ProcessingTimeSessionWindows.with_gap(Time.seconds(-1)),
    ],
)
def test_settings_that_make_no_sense(make):
    with pytest.raises(Exception, match="must be"):
        make()


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(Time.seconds(1)),
        SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)),
    ],
)
def test_event_time_needs_timestamps(assigner):
    with pytest.raises(Exception, match="assign_timestamps_and_watermarks"):
        assigner.assign_windows(None, -(2**63), None)
