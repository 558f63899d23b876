"""Every given trigger, by event time and by the clock, and user-written ones with state."""

# mypy: disable-error-code="arg-type,method-assign,type-arg,var-annotated"

import pytest

from penstock.operators.common.time import Time
from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.operators.windows.trigger import SessionWindowTimeGapExtractor, Trigger, TriggerResult
from penstock.operators.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    Min,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from penstock.operators.windows.window import GlobalWindow, TimeWindow
from penstock.operators.windows.window_contexts import WindowOperationDescriptor
from tests.operator_harness import Clock, Tick, Watermark, run
from tests.operators.windows.window_jobs import KINDS
from tests.operators.windows.windows_of_ten import CONTINUE, FIRE, TEN, at, processing

TEN_BY_CLOCK = TumblingProcessingTimeWindows(10, 0)


def numbers(recorded):
    return ["|".join(str(one[2]) for one in value[3]) for value in recorded.values]


def test_results():
    assert [(result.is_fire(), result.is_purge()) for result in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]


def test_which_triggers_can_merge():
    second = Time.seconds(1)
    merging: list[Trigger] = [
        EventTimeTrigger.create(),
        ProcessingTimeTrigger.create(),
        ContinuousEventTimeTrigger.of(second),
        ContinuousProcessingTimeTrigger.of(second),
        CountTrigger.of(2),
        PurgingTrigger.of(CountTrigger.of(2)),
    ]
    assert all(trigger.can_merge() for trigger in merging)
    assert not NeverTrigger().can_merge()
    assert not PurgingTrigger.of(NeverTrigger()).can_merge()
    assert Min().reduce(3, 2) == 2


def test_count_trigger_on_time_windows():
    recorded = run(processing(TEN, CountTrigger.of(2)), [at(n, n) for n in (1, 2, 3, 4, 5, 11, 12)])
    assert numbers(recorded) == ["1|2", "1|2|3|4", "11|12"]


def test_purging_count_trigger_on_time_windows():
    trigger = PurgingTrigger.of(CountTrigger.of(2))
    recorded = run(processing(TEN, trigger), [at(n, n) for n in (1, 2, 3, 4, 5, 11, 12)])
    assert numbers(recorded) == ["1|2", "3|4", "11|12"]


def test_purging_event_time_trigger_starts_late_windows_anew():
    made = processing(TEN, PurgingTrigger.of(EventTimeTrigger.create()), allowed_lateness_milliseconds=20)
    recorded = run(made, [at(1, 1), at(2, 2), Watermark(9), at(3, 3), at(4, 4)])
    assert numbers(recorded) == ["1|2", "3", "4"]


def test_never_trigger():
    assert run(processing(GlobalWindows.create()), [at(1, 1), at(2, 2)]).values == []


def test_continuous_event_time_trigger():
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(3))
    steps = [at(1, 1), at(2, 2), Watermark(3), at(7, 7), Watermark(5), Watermark(6), Watermark(7), at(8, 8)]
    recorded = run(processing(TEN, trigger), [*steps, Watermark(30)])
    # At 3 and 6, and at the end: once for the window, once for the last interval, which would end after it.
    assert numbers(recorded) == ["1|2", "1|2|7", "1|2|7|8"]


def test_continuous_event_time_trigger_on_sessions():
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(10))
    made = processing(EventTimeSessionWindows(8), trigger)
    steps = [at(1, 1), at(15, 15), at(8, 8), Watermark(9), Watermark(10), Watermark(19), Watermark(20)]
    recorded = run(made, [*steps, Watermark(22)])
    assert [(value[1], value[2], len(value[3])) for value in recorded.values] == [(1, 23, 3)] * 3


def test_continuous_processing_time_trigger():
    trigger = ContinuousProcessingTimeTrigger.of(Time.milliseconds(4))
    made = processing(TEN_BY_CLOCK, trigger)
    # Timers that are due are looked at after records and watermarks.
    steps = [at(0, 1), Tick(3), at(0, 2), Tick(1), at(0, 3), Tick(4), at(0, 4), Tick(2), Watermark(0)]
    recorded = run(made, steps, clock=Clock(1000))
    assert numbers(recorded) == ["1|2|3", "1|2|3|4", "1|2|3|4"]
    assert [stamp for _, stamp in recorded.stamped] == [1009] * 3


def test_processing_time_windows():
    recorded = run(
        processing(TEN_BY_CLOCK),
        [at(5, 1), Tick(9), at(1, 2), Tick(1), at(7, 3), Tick(12), at(7, 4), at(7, 5)],
        clock=Clock(1000),
    )
    # What is pending at the end of the input is lost, as in Flink.
    assert [(value[1], [one[2] for one in value[3]]) for value in recorded.values] == [
        (1000, [1, 2]),
        (1010, [3]),
    ]
    assert [stamp for _, stamp in recorded.stamped] == [1009, 1019]


def test_processing_time_windows_fire_at_the_end_of_a_key_in_batch():
    recorded = run(
        processing(SlidingProcessingTimeWindows(10, 5, 0)),
        [at(5, 1), at(1, 2)],
        clock=Clock(1002),
        batch=True,
    )
    assert [(value[1], [one[2] for one in value[3]]) for value in recorded.values] == [
        (995, [2, 1]),
        (1000, [2, 1]),
    ]


class ThirdField(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2]


@pytest.mark.parametrize(
    "assigner",
    [
        ProcessingTimeSessionWindows.with_gap(Time.milliseconds(5)),
        ProcessingTimeSessionWindows.with_dynamic_gap(ThirdField()),
    ],
)
def test_processing_time_sessions(assigner):
    steps = [
        at(0, 5),
        Tick(4),
        at(0, 5),
        Tick(8),
        at(0, 5, "other"),
        Tick(1),
        at(0, 5),
        Tick(20),
        Watermark(1),
    ]
    recorded = run(processing(assigner), steps, clock=Clock(100))
    assert [(key, start, end, len(some)) for key, start, end, some in recorded.values] == [
        ("k", 100, 109, 2),
        ("other", 112, 117, 1),
        ("k", 113, 118, 1),
    ]


def test_names_in_a_plan():
    function = KINDS["reduce"]()
    descriptor = WindowOperationDescriptor(
        TEN, CountTrigger.of(2), 5, None, function.state_descriptor, TEN.get_window_serializer(), function
    )
    assert descriptor.generate_op_name() == "TumblingEventTimeWindows"
    assert (
        descriptor.generate_op_desc("Window", "Reduce")
        == "Window(TumblingEventTimeWindows(10, 0), CountTrigger, Reduce)"
    )


def test_timers_of_triggers_directly():
    class Context:
        def __init__(self):
            self.calls = []

        def get_current_watermark(self):
            return 50

        def get_current_processing_time(self):
            return 60

        def __getattr__(self, name):
            return lambda time: self.calls.append((name, time))

    over, open_still = TimeWindow(0, 51), TimeWindow(0, 100)
    context = Context()
    by_event, by_clock = EventTimeTrigger.create(), ProcessingTimeTrigger.create()
    assert by_event.on_element(None, 0, over, context) is FIRE
    assert by_event.on_element(None, 0, open_still, context) is CONTINUE
    assert by_event.on_event_time(99, open_still, context) is FIRE
    assert by_event.on_event_time(98, open_still, context) is CONTINUE
    assert by_event.on_processing_time(99, open_still, context) is CONTINUE
    for trigger in (by_event, by_clock):
        trigger.on_merge(over, context)
        trigger.on_merge(open_still, context)
        trigger.clear(open_still, context)
    assert by_clock.on_element(None, 0, over, context) is CONTINUE
    assert by_clock.on_processing_time(1, over, context) is FIRE
    assert by_clock.on_event_time(99, open_still, context) is CONTINUE
    assert context.calls == [
        ("register_event_time_timer", 99),
        ("register_event_time_timer", 99),
        ("delete_event_time_timer", 99),
        ("register_processing_time_timer", 99),
        ("delete_processing_time_timer", 99),
        ("register_processing_time_timer", 50),
    ]
    never = NeverTrigger()
    answers = [never.on_element(1, 2, GlobalWindow(), None), never.on_event_time(1, GlobalWindow(), None)]
    assert {*answers, never.on_processing_time(1, GlobalWindow(), None)} == {CONTINUE}
