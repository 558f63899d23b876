"""Functions on a stream and a broadcast stream."""

import pytest

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.operator import MIN_WATERMARK
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.operators.process.keyed_process_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from penstock.operators.state.interfaces import MapStateDescriptor, ValueStateDescriptor
from tests.operator_harness import Clock, Record, Tick, Watermark, run


def first(value):
    return value[0]


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Apply(BroadcastProcessFunction):  # type: ignore[type-arg]
    def process_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        assert not hasattr(rules, "put")
        yield (
            value,
            dict(rules.items()),
            "a" in rules,
            rules.is_empty(),
            ctx.timestamp(),
            ctx.current_watermark(),
        )

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        if value == "clear":
            rules.clear()
        elif value == "drop a":
            del rules["a"]
            rules.remove("nothing")
        else:
            rules.put(*value)
            rules.put_all({"all": 1})
        yield (
            sorted(rules.keys()),
            list(rules.values()),
            rules.contains("all"),
            ctx.current_processing_time(),
        )


def test_broadcast_state_is_written_on_one_side_and_read_on_the_other():
    inputs = [
        Record("x", 5),
        Record(("a", 3), number=2),
        Watermark(4),
        Record("y"),
        Record("drop a", number=2),
        Record("z"),
        Record("clear", number=2),
        Record("w"),
    ]
    recorded = run(BroadcastProcessOperator(Apply(), [RULES]), inputs, clock=Clock(77))
    assert recorded.values == [
        ("x", {}, False, True, 5, MIN_WATERMARK),
        (["a", "all"], [3, 1], True, 77),
        ("y", {"a": 3, "all": 1}, True, False, MIN_WATERMARK, 4),
        (["all"], [1], True, 77),
        ("z", {"all": 1}, False, False, MIN_WATERMARK, 4),
        ([], [], False, 77),
        ("w", {}, False, True, MIN_WATERMARK, 4),
    ]


class KeyedApply(KeyedBroadcastProcessFunction):  # type: ignore[type-arg]
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        factor = ctx.get_broadcast_state(RULES).get(value[0]) or 1
        self.sum.update((self.sum.value() or 0) + factor * value[1])
        ctx.timer_service().register_event_time_timer(10)
        ctx.timer_service().register_processing_time_timer(ctx.current_processing_time() + 5)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        yield ("rule", value)

    def on_timer(self, timestamp, ctx):
        rules = dict(ctx.get_broadcast_state(RULES).items())
        yield (ctx.get_current_key(), self.sum.value(), timestamp, ctx.time_domain().name, rules)


@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_keyed_broadcast(memory):
    inputs = [
        Record(("a", 100), number=2),
        Record(("a", 1)),
        Record(("b", 2)),
        Record(("a", 3)),
        Tick(6),
        Record(("b", 7), number=2),
        Record(("b", 1)),
    ]
    operator = KeyedBroadcastProcessOperator(KeyedApply(), first, [RULES])
    streamed = run(operator, inputs, clock=Clock(0), state_memory_bytes=memory)
    rules = {"a": 100, "b": 7}
    assert streamed.values == [
        ("rule", ("a", 100)),
        ("rule", ("b", 7)),
        ("a", 400, 5, "PROCESSING_TIME", rules),
        ("b", 2, 5, "PROCESSING_TIME", rules),
        ("a", 400, 10, "EVENT_TIME", rules),
        ("b", 9, 10, "EVENT_TIME", rules),
    ]
    batch = run(
        KeyedBroadcastProcessOperator(KeyedApply(), first, [RULES]), inputs, batch=True, clock=Clock(0)
    )
    assert batch.values == [
        ("rule", ("a", 100)),
        ("rule", ("b", 7)),
        ("a", 400, 10, "EVENT_TIME", rules),
        ("a", 400, 5, "PROCESSING_TIME", rules),
        ("b", 21, 10, "EVENT_TIME", rules),
        ("b", 21, 5, "PROCESSING_TIME", rules),
    ]


def test_broadcast_states_of_one_name_have_one_type():
    class Other(Apply):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.STRING()))
            yield value

    with pytest.raises(UserFunctionError, match="State name corrupted"):
        run(BroadcastProcessOperator(Other(), [RULES]), [Record(("a", 1), number=2), "x"])
