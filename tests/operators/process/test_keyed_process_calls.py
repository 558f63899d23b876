"""How keyed process functions are called: two inputs, side outputs, failures, open and close."""

import pytest

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import KeyedCoProcessFunction, KeyedProcessFunction
from penstock.operators.process.keyed_process_operators import KeyedCoProcessOperator, KeyedProcessOperator
from tests.operator_harness import Record, run


def first(value):
    return value[0]


class Both(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield (1, value, ctx.timestamp(), ctx.get_current_key())

    def process_element2(self, value, ctx):
        return [(2, value, ctx.timestamp(), ctx.get_current_key())]


def test_two_inputs_have_key_selectors_of_their_own():
    inputs = [Record(("a", 1), 5, 1), Record((1, "a"), 6, 2), Record(("b", 2), None, 1)]
    operator = KeyedCoProcessOperator(Both(), lambda value: value[0], lambda value: value[1])
    assert run(operator, inputs).values == [
        (1, ("a", 1), 5, "a"),
        (2, (1, "a"), 6, "a"),
        (1, ("b", 2), MIN_WATERMARK, "b"),
    ]


def test_side_outputs_of_records_and_timers_keep_their_timestamps():
    tag = OutputTag("late", Types.STRING())

    class Tagged(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(9)
            yield tag, "record"
            yield value

        def on_timer(self, timestamp, ctx):
            yield tag, "timer"

    recorded = run(KeyedProcessOperator(Tagged(), first), [Record(("a",), 3)])
    assert recorded.events == [
        ("record", ("a",), 3),
        ("side", "late", "record", 3),
        ("side", "late", "timer", 9),
        ("watermark", MAX_WATERMARK),
    ]


def _fail_at_b(value):
    if value == "b":
        raise ValueError("no b")
    return value


class FailAtB(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)
        yield _fail_at_b(value)


class FailInTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(7)

    def on_timer(self, timestamp, ctx):
        _fail_at_b(ctx.get_current_key())


@pytest.mark.parametrize(
    ("operator", "record", "batch"),
    [
        (KeyedProcessOperator(FailAtB(), lambda value: value), "'b'", False),
        (KeyedProcessOperator(FailAtB(), lambda value: value), "'b'", True),
        (KeyedProcessOperator(FailAtB(), _fail_at_b), "'b'", False),
        (KeyedProcessOperator(FailInTimer(), lambda value: value), "timer of key 'b' at 7", False),
        (KeyedProcessOperator(FailInTimer(), lambda value: value), "timer of key 'b' at 7", True),
    ],
)
def test_failures_name_the_record(operator, record, batch):
    with pytest.raises(UserFunctionError) as failure:
        run(operator, ["a", "b", "c"], batch=batch, operator_name="Guess")
    assert record in failure.value.record
    assert failure.value.cause == "ValueError: no b"
    assert failure.value.operator == "Guess"


def test_functions_are_opened_and_closed():
    calls = []

    class Life(KeyedProcessFunction):
        def open(self, runtime_context):
            calls.append(runtime_context.get_task_name_with_subtasks())

        def close(self):
            calls.append("close")

        def process_element(self, value, ctx):
            calls.append(value)

    run(
        KeyedProcessOperator(Life(), first),
        [("a",)],
        task_name="T",
        subtask=1,
        parallelism=3,
        attempt_number=2,
    )
    assert calls == ["T (2/3)#2", ("a",), "close"]


def test_in_batch_mode_small_keys_go_out_together():
    class Twice(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return [value, value]

    values = [number % 3000 for number in range(9000)]
    recorded = run(KeyedProcessOperator(Twice(), lambda value: value), values, batch=True)
    assert sorted(recorded.values) == sorted(values * 2)
    assert recorded.calls < 300, "not one for each of 3,000 keys; results also go out in time"
    values = [0] * 50_000
    recorded = run(KeyedProcessOperator(Twice(), lambda value: value), values, batch=True, chunk=1000)
    assert recorded.values == [0] * 100_000
    assert recorded.calls > 5
