"""Triggers of a user's own: state, timers, and what they are told."""

# mypy: disable-error-code="arg-type,method-assign,type-arg,var-annotated"

import pytest

from penstock.operators.common.typeinfo import Types
from penstock.operators.state.interfaces import ReducingStateDescriptor, ValueStateDescriptor
from penstock.operators.windows.assigners import EventTimeSessionWindows, GlobalWindows
from penstock.operators.windows.trigger import Trigger, TriggerResult
from tests.operator_harness import Clock, Watermark, run
from tests.operators.windows.windows_of_ten import CONTINUE, FIRE, PURGE, TEN, at, processing


class Every(Trigger):
    """Fires at every nth record of a window, and tells its context what it asks."""

    asked: list

    def __init__(self, count):
        self.count = ReducingStateDescriptor("count", lambda a, b: a + b, Types.INT())
        self.n = count

    def on_element(self, element, timestamp, window, ctx):
        state = ctx.get_partitioned_state(self.count)
        state.add(1)
        Every.asked.append((ctx.get_current_watermark(), ctx.get_current_processing_time(), timestamp))
        ctx.get_metric_group().counter("asked").inc()
        return FIRE if state.get() % self.n == 0 else CONTINUE

    def on_processing_time(self, time, window, ctx):
        return CONTINUE

    def on_event_time(self, time, window, ctx):
        return CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.count)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.count).clear()


def test_trigger_state_is_merged_with_sessions():
    Every.asked = []
    made = processing(EventTimeSessionWindows(5), Every(4))
    recorded = run(made, [at(0, 1), Watermark(-3), at(10, 2), at(11, 3), at(5, 4), at(30, 5)], clock=Clock(7))
    # The fourth record joins sessions of one and of two records; only then is there a fourth.
    assert [(value[1], value[2], sorted(one[2] for one in value[3])) for value in recorded.values] == [
        (0, 16, [1, 2, 3, 4])
    ]
    assert Every.asked == [(-(2**63), 7, 0), (-3, 7, 10), (-3, 7, 11), (-3, 7, 5), (-3, 7, 30)]
    made = processing(EventTimeSessionWindows(5), Every(4))
    made.close = lambda: None
    run(made, [at(0, 1), at(10, 2), at(5, 4)])
    assert not made.backend.table("count", namespaced=True).entries
    assert not made.backend.table("merging-window-set").entries
    assert not made.backend.table("window-contents", namespaced=True).entries


def test_state_that_cannot_be_merged():
    class Bad(Every):
        def on_merge(self, window, ctx):
            ctx.merge_partitioned_state(ValueStateDescriptor("one", Types.INT()))

    Every.asked = []
    with pytest.raises(Exception, match="'one' cannot be merged"):
        run(processing(EventTimeSessionWindows(5), Bad(4)), [at(0, 1), at(3, 2)])


class Scripted(Trigger):
    """Answers each record with what the record says."""

    def on_element(self, element, timestamp, window, ctx):
        return element[2]

    def on_processing_time(self, time, window, ctx):
        return CONTINUE

    def on_event_time(self, time, window, ctx):
        assert time == window.max_timestamp(), "only the clean-up timer was set"
        return CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


@pytest.mark.parametrize("batch", [False, True])
def test_purge_without_fire(batch):
    answers = [CONTINUE, PURGE, CONTINUE, FIRE, TriggerResult.FIRE_AND_PURGE, FIRE]
    recorded = run(
        processing(TEN, Scripted()), [at(n, answer) for n, answer in enumerate(answers)], batch=batch
    )
    assert [[one[1] for one in value[3]] for value in recorded.values] == [[2, 3], [2, 3, 4], [5]]


def test_deleted_timers_do_not_fire():
    class Debounce(Scripted):
        """Waits for 5 ms without a record."""

        last = ValueStateDescriptor("last", Types.LONG())

        def on_element(self, element, timestamp, window, ctx):
            state = ctx.get_partitioned_state(self.last)
            if state.value() is not None:
                ctx.delete_event_time_timer(state.value() + 5)
            state.update(timestamp)
            ctx.register_event_time_timer(timestamp + 5)
            return CONTINUE

        def on_event_time(self, time, window, ctx):
            return TriggerResult.FIRE_AND_PURGE

    made = processing(GlobalWindows.create(), Debounce())
    recorded = run(made, [at(0), at(3), Watermark(10), at(20), at(22)])
    assert [([one[1] for one in value[3]], stamp) for value, stamp in recorded.stamped] == [
        ([0, 3], 8),
        ([20, 22], 27),
    ]
