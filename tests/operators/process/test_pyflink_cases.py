"""Cases that the real PyFlink 2.3.0 has run: its results from the operators alone."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.async_functions import NO_RETRY_STRATEGY, AsyncFunction
from penstock.operators.functions.functions import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.operators.process.async_wait_operator import AsyncWaitOperator
from penstock.operators.process.keyed_process_operators import (
    BroadcastProcessOperator,
    KeyedCoProcessOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from penstock.operators.process.process_operators import ProcessOperator
from penstock.operators.state.interfaces import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.operator_harness import Record, run
from tests.operators.windows.clicks import CLICKS, TIMED

EXPECTED = Path(__file__).parents[2] / "pyflink" / "expected.jsonl"
LINES = ["to be or not to be", "that is the question", "be that as it may", "to the point"]
WORDS = [word for line in LINES for word in line.split()]
MODES = pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
MEMORY = pytest.mark.parametrize("memory", [1, 1 << 28])


def first(value):
    return value[0]


def expected(case, mode="STREAMING"):
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["case"] == case and entry["mode"] == mode:
            return [result.removeprefix("RESULT ") for result in entry["results"]]
    raise AssertionError(f"no case {case} in {mode}")


def shown(values):
    return sorted(map(repr, values))


@MODES
@MEMORY
def test_word_count(mode, memory):
    operator = ReduceOperator(lambda a, b: (a[0], a[1] + b[1]), first)
    recorded = run(operator, [(word, 1) for word in WORDS], batch=mode == "BATCH", state_memory_bytes=memory)
    assert shown(recorded.values) == expected("word_count", mode)


class Track(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.INT(), Types.INT()))

    def process_element(self, value, ctx):
        gap = value[1] - (self.last.value() or value[1])
        self.last.update(value[1])
        self.seen.add(value[2])
        bucket = value[2] % 3
        self.counts.put(bucket, (self.counts.get(bucket) or 0) + 1)
        yield (
            ctx.get_current_key(),
            gap,
            list(self.seen.get()),
            sorted(self.counts.items()),
            self.counts.contains(0),
        )
        if len(list(self.seen.get())) == 3:
            self.seen.clear()
            self.counts.remove(bucket)


@MODES
@MEMORY
def test_value_list_map_state(mode, memory):
    operator = KeyedProcessOperator(Track(), first)
    recorded = run(operator, CLICKS, batch=mode == "BATCH", state_memory_bytes=memory)
    assert shown(recorded.values) == expected("value_list_map_state", mode)


class Remind(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 10000 * 10000 + 9999)
        if value[2] == 9:
            ctx.timer_service().delete_event_time_timer(19999)

    def on_timer(self, timestamp, ctx):
        yield (ctx.get_current_key(), timestamp, self.sum.value(), str(ctx.time_domain()))
        if timestamp < 30000:
            ctx.timer_service().register_event_time_timer(timestamp + 30000)


@MEMORY
def test_event_time_timers(memory):
    recorded = run(KeyedProcessOperator(Remind(), first), TIMED, state_memory_bytes=memory)
    assert shown(recorded.values) == expected("event_time_timers")
    assert [stamp for _, stamp in recorded.stamped] == [value[1] for value in recorded.values]


class Again(KeyedProcessFunction):
    def open(self, runtime_context):
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.INT()))

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1])
        timers.register_event_time_timer(value[1])
        timers.register_event_time_timer(value[1] + 7)
        timers.delete_event_time_timer(value[1] + 7)
        timers.delete_event_time_timer(123456)
        timers.register_processing_time_timer(timers.current_processing_time() + 86400000)

    def on_timer(self, timestamp, ctx):
        self.fired.update((self.fired.value() or 0) + 1)
        if self.fired.value() < 8:
            odd = self.fired.value() % 2
            ctx.timer_service().register_event_time_timer(timestamp - 1 if odd else timestamp + 100000)
        yield (ctx.get_current_key(), timestamp, ctx.timestamp(), str(ctx.time_domain()))


@MEMORY
def test_timers_that_timers_set(memory):
    """PyFlink 2.3.0 printed these times: what timers set does not come before what was set already."""
    recorded = run(KeyedProcessOperator(Again(), first), TIMED, state_memory_bytes=memory)
    times: dict[str, list[int]] = {}
    for key, timestamp, stamp, domain in recorded.values:
        assert (stamp, domain) == (timestamp, "TimeDomain.EVENT_TIME")
        times.setdefault(key, []).append(timestamp)
    assert {key: sorted(some) for key, some in times.items()} == {
        "ann": [999, 1000, 3500, 5198, 5199, 5200, 11000, 21499, 21500, 100999, 103500, 111000],
        "bob": [1998, 1999, 2000, 9000, 14998, 14999, 15000, 108999, 109000, 114998, 115000],
        "cid": [3996, 3997, 3998, 3999, 4000, 21000, 121000, 221000, 321000],
        "dee": [11999, 12000, 111998, 111999, 211997, 211998, 311996, 311997],
    }


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.STRING()))

    def process_element1(self, value, ctx):
        self.left.update((self.left.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(1_000_000)

    def process_element2(self, value, ctx):
        self.right.add(value[1])
        ctx.timer_service().register_event_time_timer(1_000_000)

    def on_timer(self, timestamp, ctx):
        yield (ctx.get_current_key(), self.left.value(), sorted(self.right.get()), timestamp)


LEFT = [("a", 1), ("b", 2), ("a", 3)]
RIGHT = [("a", "p"), ("c", "q"), ("a", "r")]


@MODES
@MEMORY
def test_keyed_co_process_totals(mode, memory):
    """BATCH mode as STREAMING: there PyFlink 2.3 forgets what the right side has added to the list of "a"."""
    inputs = [Record(value, number=1) for value in LEFT] + [Record(value, number=2) for value in RIGHT]
    operator = KeyedCoProcessOperator(Join(), first, first)
    recorded = run(operator, inputs, batch=mode == "BATCH", state_memory_bytes=memory)
    assert shown(recorded.values) == expected("keyed_co_process_totals", "STREAMING")


class Split(ProcessFunction):
    big, odd = OutputTag("big", Types.INT()), OutputTag("odd", Types.STRING())

    def process_element(self, value, ctx):
        if value > 6:
            yield self.big, value
        if value % 2:
            yield self.odd, "odd-" + str(value)
        yield value


@MODES
def test_side_outputs(mode):
    recorded = run(ProcessOperator(Split()), list(range(10)), batch=mode == "BATCH")
    main = [f"main-{value}" for value in recorded.values]
    big = [f"big-{value}" for value in recorded.side("big")]
    assert shown(main + big + recorded.side("odd")) == expected("side_outputs", mode)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Apply(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value, ctx):
        factor = ctx.get_broadcast_state(RULES).get(value[0])
        yield (value[0], value[2] * (factor or 0))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


def test_broadcast_state():
    rules = [Record(rule, number=2) for rule in (("ann", 10), ("bob", 100))]
    recorded = run(BroadcastProcessOperator(Apply(), [RULES]), [*rules, *CLICKS])
    assert shown(recorded.values) == expected("broadcast_state", "BATCH")


class Slow(AsyncFunction[int, int]):
    async def async_invoke(self, value):
        await asyncio.sleep(0.01 * (5 - value))
        return [value, value * 10]

    def timeout(self, value):
        return [-1]


def test_async_ordered():
    operator = AsyncWaitOperator(Slow(), 10_000, 2, True, NO_RETRY_STRATEGY)
    recorded = run(operator, [1, 2, 3, 4, 5])
    assert recorded.values == [1, 10, 2, 20, 3, 30, 4, 40, 5, 50]
    assert shown(recorded.values) == sorted(expected("async_ordered"))
