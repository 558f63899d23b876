"""Keyed process functions against a simulation that does one thing after another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import KeyedProcessFunction, TimeDomain
from penstock.operators.process.keyed_process_operators import KeyedProcessOperator
from penstock.operators.state.interfaces import ListStateDescriptor, ValueStateDescriptor
from tests.operator_harness import Clock, Record, Tick, Watermark, run


def first(value):
    return value[0]


class Act(KeyedProcessFunction):
    """Does what the records say: (key, [(what, number)])."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        for what, number in value[1]:
            if what == "sum":
                self.sum.update((self.sum.value() or 0) + number)
            elif what == "clock":
                timers.register_processing_time_timer(timers.current_processing_time() + number)
            elif what == "no clock":
                timers.delete_processing_time_timer(timers.current_processing_time() + number)
            elif what == "event":
                timers.register_event_time_timer(number)
            else:
                timers.delete_event_time_timer(number)
        yield ("record", ctx.get_current_key(), ctx.timestamp(), timers.current_watermark(), self.sum.value())

    def on_timer(self, timestamp, ctx):
        domain = ctx.time_domain()
        yield ("timer", ctx.get_current_key(), timestamp, domain.name, self.sum.value())
        if timestamp % 3 == 0 and domain is TimeDomain.EVENT_TIME:
            ctx.timer_service().register_event_time_timer(timestamp + 4)
        if timestamp % 5 == 0:
            self.sum.clear()


def simulated(steps, now):
    """The same with one loop over a list of timers; keys by their repr, for 1 and True are two."""
    sums: dict[str, int] = {}
    timers: list[tuple[str, int, str]] = []
    originals: dict[str, object] = {}
    watermark, out = MIN_WATERMARK, []

    def fire(domain, limit):
        # In rounds, as PyFlink's operators do: what a round registers belongs to the next one.
        this_round: list[tuple[str, int, str]] = []
        while True:
            if not this_round:
                due = [timer for timer in timers if timer[0] == domain and timer[1] <= limit]
                this_round = sorted(due, key=lambda timer: timer[1])
                timers[:] = [timer for timer in timers if timer not in due]
                if not due:
                    return
            _, time, key = this_round.pop(0)
            stamp = time if domain == "EVENT_TIME" else None
            out.append((("timer", originals[key], time, domain, sums.get(key)), stamp))
            again = (domain, time + 4, key)
            if time % 3 == 0 and domain == "EVENT_TIME" and again not in timers:
                timers.append(again)
            if time % 5 == 0:
                sums.pop(key, None)

    for step in [*steps, Watermark(MAX_WATERMARK)]:
        if isinstance(step, Tick):
            now += step.milliseconds
        elif isinstance(step, Watermark):
            watermark = step.timestamp
            fire("EVENT_TIME", watermark)
            fire("PROCESSING_TIME", now)
        else:
            original, actions = step.value
            key = repr(original)
            originals[key] = original
            for what, number in actions:
                domain, time = (
                    ("PROCESSING_TIME", now + number) if "clock" in what else ("EVENT_TIME", number)
                )
                if what == "sum":
                    sums[key] = sums.get(key, 0) + number
                elif what in ("clock", "event"):
                    if (domain, time, key) not in timers:
                        timers.append((domain, time, key))
                elif (domain, time, key) in timers:
                    timers.remove((domain, time, key))
            stamp = MIN_WATERMARK if step.timestamp is None else step.timestamp
            out.append((("record", original, stamp, watermark, sums.get(key)), step.timestamp))
            fire("PROCESSING_TIME", now)
    return out


KEYS = st.sampled_from(["a", "b", 1, True, 1.0, ("t", 1)])
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["sum", "event", "no event", "clock", "no clock"]), st.integers(0, 20)),
    max_size=4,
)
STEPS = st.lists(
    st.one_of(
        st.builds(Record, st.tuples(KEYS, ACTIONS), st.none() | st.integers(0, 20)),
        st.builds(Tick, st.integers(1, 6)),
    ),
    max_size=20,
)


@given(
    portions=st.lists(STEPS, max_size=4),
    memory=st.sampled_from([1, 4000, 1 << 30]),
)
def test_does_what_the_simulation_does(portions, memory):
    steps = [step for time, steps in enumerate(portions) for step in [*steps, Watermark(time * 5)]]
    clock = Clock(100)
    expected = simulated(steps, clock.now)
    recorded = run(KeyedProcessOperator(Act(), first), steps, chunk=1, clock=clock, state_memory_bytes=memory)
    assert repr(recorded.stamped) == repr(expected)


@pytest.mark.slow
@given(portions=st.lists(STEPS, max_size=4), chunk=st.integers(2, 7))
def test_the_length_of_lists_does_not_matter(portions: list[list[Any]], chunk):
    """But for timers of the clock, which fire between two lists."""
    steps: list[object] = []
    for time, portion in enumerate(portions):
        for step in portion:
            if isinstance(step, Record):
                key, actions = step.value
                kept = [action for action in actions if "clock" not in action[0]]
                steps.append(Record((key, kept), step.timestamp))
        steps.append(Watermark(time * 3))
    outs = [run(KeyedProcessOperator(Act(), first), steps, chunk=n).events for n in (1, chunk)]
    assert outs[0] == outs[1]


class Seen(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        self.seen.add(value[1])
        timers.register_event_time_timer(value[1] + 10)
        timers.register_event_time_timer(50)
        timers.register_processing_time_timer(10**15)
        yield (value[0], value[1], timers.current_watermark())

    def on_timer(self, timestamp, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(timestamp + 1)
        timers.register_processing_time_timer(timestamp + 1)
        if timestamp == 11:
            timers.delete_event_time_timer(13)
        yield (ctx.get_current_key(), timestamp, ctx.time_domain().name, list(self.seen))
        if ctx.time_domain() is TimeDomain.EVENT_TIME:
            assert timers.current_watermark() == MAX_WATERMARK


def test_batch_fires_everything_at_the_end_of_each_key():
    """As PyFlink's thread mode showed: timers that are registered meanwhile are ignored."""
    records = [Record(value, value[1]) for value in (("a", 3), ("b", 2), ("a", 1))]
    recorded = run(KeyedProcessOperator(Seen(), first), records, batch=True)
    assert recorded.stamped == [
        (("a", 1, MIN_WATERMARK), 1),
        (("a", 3, MIN_WATERMARK), 3),
        (("a", 11, "EVENT_TIME", [1, 3]), 11),
        (("a", 50, "EVENT_TIME", [1, 3]), 50),
        (("a", 10**15, "PROCESSING_TIME", [1, 3]), None),
        (("b", 2, MIN_WATERMARK), 2),
        (("b", 12, "EVENT_TIME", [2]), 12),
        (("b", 50, "EVENT_TIME", [2]), 50),
        (("b", 10**15, "PROCESSING_TIME", [2]), None),
    ]
    assert recorded.watermarks == [MAX_WATERMARK]


def test_batch_starts_each_key_afresh():
    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            ctx.timer_service().register_event_time_timer(5)

        def on_timer(self, timestamp, ctx):
            return [(ctx.get_current_key(), self.count.value())]

    operator = KeyedProcessOperator(Count(), first)
    recorded = run(operator, [(True,), (1,), (1.0,), (1,), ([1],)], batch=True, chunk=1)
    assert [(repr(key), count) for key, count in recorded.values] == [
        ("True", 1), ("1", 2), ("1.0", 1), ("[1]", 1)
    ]  # fmt: skip
    assert not operator.backend.table("count").entries


def test_timers_of_the_clock_that_are_pending_at_the_end_are_dropped():
    steps = [Record(("a", [("clock", 5)])), Tick(4)]
    recorded = run(KeyedProcessOperator(Act(), first), steps)
    assert [value[0] for value in recorded.values] == ["record"]
