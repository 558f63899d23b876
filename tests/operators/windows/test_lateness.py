"""Late records, step by step with watermarks, and the faster ways against the general one."""

# mypy: disable-error-code="type-arg,var-annotated"

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.functions.functions import ProcessWindowFunction
from penstock.operators.functions.runtime_context import metric_values
from penstock.operators.windows.assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.trigger import SessionWindowTimeGapExtractor
from penstock.operators.windows.triggered_windows import LATE_RECORDS_DROPPED
from penstock.operators.windows.window_functions import buffered
from tests.operator_harness import Record, Watermark, run
from tests.operators.windows.window_jobs import KINDS, operator

WAYS = pytest.mark.parametrize("by_trigger", [False, True])


def at(time, number, key="k"):
    return Record((key, time, number), time)


def numbers(recorded):
    return [(event[1], event[2]) for event in recorded.events if event[0] == "record"]


@WAYS
def test_tumbling_without_lateness(by_trigger):
    made = operator(
        TumblingEventTimeWindows(10, 0), KINDS["aggregate"](), late_tag="late", by_trigger=by_trigger
    )
    recorded = run(
        made,
        [
            at(3, 1),
            Watermark(8),
            at(2, 2),  # below the watermark, but its window is open
            Watermark(9),
            at(4, 3),  # the window has fired and is over
            at(12, 4),
            Watermark(25),
            at(19, 5),
        ],
    )
    assert numbers(recorded) == [("1|2", 9), ("4", 19)]
    assert recorded.side("late") == [("k", 4, 3), ("k", 19, 5)]


@WAYS
def test_windows_that_are_kept_for_good(by_trigger):
    """`allowed_lateness(-1)`: as in PyFlink, where each late record fires its window again."""
    made = operator(
        TumblingEventTimeWindows(10, 0),
        KINDS["aggregate"](),
        allowed_lateness_milliseconds=MAX_WATERMARK,
        late_tag="late",
        by_trigger=by_trigger,
    )
    recorded = run(made, [at(3, 1), Watermark(9), at(4, 2), Watermark(10**15), at(5, 3)])
    assert numbers(recorded) == [("1", 9), ("1|2", 9), ("1|2|3", 9)]
    assert recorded.side("late") == []


@WAYS
def test_tumbling_with_lateness(by_trigger):
    made = operator(
        TumblingEventTimeWindows(10, 0),
        KINDS["aggregate"](),
        allowed_lateness_milliseconds=5,
        late_tag="late",
        by_trigger=by_trigger,
    )
    recorded = run(
        made,
        [
            at(3, 1),
            Watermark(9),
            at(4, 2),  # late but allowed: fires at once
            at(5, 3),
            Watermark(13),
            at(6, 4, key="other"),  # a key that was not there when the window fired
            Watermark(14),
            at(7, 5),  # 9 + 5 has passed
            at(15, 6),
        ],
    )
    assert numbers(recorded) == [("1", 9), ("1|2", 9), ("1|2|3", 9), ("4", 9), ("6", 19)]
    assert recorded.side("late") == [("k", 7, 5)]


@WAYS
def test_sliding_some_windows_late(by_trigger):
    made = operator(
        SlidingEventTimeWindows(10, 5, 0), KINDS["aggregate"](), late_tag="late", by_trigger=by_trigger
    )
    recorded = run(made, [at(6, 1), Watermark(9), at(7, 2), Watermark(14), at(8, 3)])
    assert numbers(recorded) == [("1", 9), ("1|2", 14)]
    # Record 2 was late for one of its two windows only.
    assert recorded.side("late") == [("k", 8, 3)]


@WAYS
def test_records_between_the_windows_are_not_late(by_trigger):
    made = operator(
        SlidingEventTimeWindows(2, 10, 0), KINDS["aggregate"](), late_tag="late", by_trigger=by_trigger
    )
    recorded = run(made, [at(5, 1), at(1, 2), Watermark(6), at(7, 3), at(6, 4)])
    assert numbers(recorded) == [("2", 1)]
    # No window wants 1 and 3 either, but only what is below the watermark is late.
    assert recorded.side("late") == [("k", 6, 4)]


@WAYS
def test_late_records_without_side_output_are_counted(by_trigger):
    made = operator(TumblingEventTimeWindows(10, 0), KINDS["reduce"](), by_trigger=by_trigger)
    run(made, [at(3, 1), Watermark(20), at(4, 2), at(5, 3), at(30, 4)])
    assert metric_values(made.context)[LATE_RECORDS_DROPPED] == 2


@WAYS
def test_session_with_lateness(by_trigger):
    made = operator(
        EventTimeSessionWindows(10),
        KINDS["process"](),
        allowed_lateness_milliseconds=5,
        late_tag="late",
        by_trigger=by_trigger,
    )
    recorded = run(
        made,
        [
            at(0, 1),
            Watermark(9),  # fires 0 to 10
            at(4, 2),  # joins it; 0 to 14 is open again
            Watermark(13),
            at(2, 3),  # inside: fires at once
            Watermark(18),  # 13 + 5: over
            at(1, 4),
            at(9, 5),  # 9 to 19 is a window of its own, complete but allowed
        ],
    )
    assert [(value[1], value[2], [one[2] for one in value[3]]) for value in recorded.values] == [
        (0, 10, [1]),
        (0, 14, [1, 2]),
        (0, 14, [1, 2, 3]),
        (9, 19, [5]),
    ]
    assert recorded.side("late") == [("k", 1, 4)]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2] % 9 + 1


class Tracing(ProcessWindowFunction):
    """Also tells when a window is over."""

    over: list

    def process(self, key, context, elements):
        window = context.window()
        watermark = context.current_watermark()
        yield (repr(key), window.start, window.end, list(elements), watermark)

    def clear(self, context):
        Tracing.over.append((context.window().start, context.window().end, context.current_watermark()))


ASSIGNERS = st.one_of(
    st.builds(TumblingEventTimeWindows, st.integers(3, 20), st.integers(-2, 2)),
    st.builds(SlidingEventTimeWindows, st.integers(1, 20), st.integers(3, 9), st.integers(-2, 2)),
    st.builds(EventTimeSessionWindows, st.integers(1, 15)),
    st.just(DynamicEventTimeSessionWindows(Gap())),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["a", "b", 1, True]), st.integers(0, 80)),
        st.integers(0, 90),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(
    assigner=ASSIGNERS,
    steps=STEPS,
    kind=st.sampled_from([*KINDS, "tracing"]),
    lateness=st.sampled_from([0, 0, 1, 7, 40]),
    chunk=st.integers(1, 5),
)
def test_faster_ways_do_the_same(assigner, steps, kind, lateness, chunk):
    inputs: list[Record | Watermark] = []
    watermark = -1
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            inputs.append(Record((*step, number), step[1]))
        elif step > watermark:
            watermark = step
            inputs.append(Watermark(step))
    found = []
    for by_trigger in (False, True):
        function = buffered(Tracing()) if kind == "tracing" else KINDS[kind]()
        made = operator(
            assigner,
            function,
            allowed_lateness_milliseconds=lateness,
            late_tag="late",
            by_trigger=by_trigger,
        )
        Tracing.over = []
        recorded = run(made, inputs, chunk=chunk)
        found.append(
            (
                sorted(map(repr, portions(recorded))),
                recorded.side("late"),
                recorded.watermarks,
                sorted(Tracing.over),
            )
        )
    assert found[0] == found[1]


def portions(recorded):
    """Results with the watermark that they came before; keys of one window come in no particular order."""
    number = 0
    for event in recorded.events:
        if event[0] == "watermark":
            number += 1
        elif event[0] == "record":
            yield number, event[1:]


@WAYS
def test_a_session_that_comes_again_in_its_full_length(by_trigger):
    class Third(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return element[2]

    made = operator(DynamicEventTimeSessionWindows(Third()), KINDS["aggregate"](), by_trigger=by_trigger)
    # 0 to 10 and 5 to 30 make 0 to 30, which is what the last record has from the start.
    recorded = run(made, [at(0, 10), at(5, 25), at(0, 30)])
    assert numbers(recorded) == [("10|25|30", 29)]


@WAYS
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10, 0), EventTimeSessionWindows(7)])
def test_a_function_may_empty_the_list_it_is_given(by_trigger, assigner):
    class Taking(ProcessWindowFunction):
        def process(self, key, context, elements):
            taken = [element[2] for element in elements]
            elements.clear()
            yield taken

    made = operator(assigner, buffered(Taking()), allowed_lateness_milliseconds=9, by_trigger=by_trigger)
    recorded = run(made, [at(2, 1), at(1, 2), Watermark(12), at(1, 3), at(2, 4)])
    assert recorded.values == [[1, 2], [1, 2, 3], [1, 2, 3, 4]]
