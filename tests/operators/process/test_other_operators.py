"""Reduce, keyed record functions, process functions without keys."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from penstock.operators.process.keyed_process_operators import (
    KeyedCoFlatMapOperator,
    KeyedCoMapOperator,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    ReduceOperator,
)
from penstock.operators.process.process_operators import CoProcessOperator, ProcessOperator
from penstock.operators.state.interfaces import ValueStateDescriptor
from tests.operator_harness import Clock, Record, Watermark, run


def first(value):
    return value[0]


class Concat(ReduceFunction):
    def open(self, runtime_context):
        self.between = runtime_context.get_job_parameter("between", "?")

    def reduce(self, value1, value2):
        return (value1[0], value1[1] + self.between + value2[1])


RECORDS = st.lists(
    st.builds(
        Record, st.tuples(st.sampled_from("abc"), st.text("xyz", max_size=2)), st.none() | st.integers(0, 9)
    ),
    max_size=25,
)


@given(records=RECORDS, chunk=st.integers(1, 9), memory=st.sampled_from([1, 1 << 30]))
def test_reduce(records, chunk, memory):
    """Every update in STREAMING mode, the last one in BATCH mode, there over records in order of time."""
    expected = []
    groups: dict[str, list[Record]] = {}
    for record in records:
        group = groups.setdefault(record.value[0], [])
        group.append(record)
        text = "-".join(one.value[1] for one in group)
        expected.append(((record.value[0], text), record.timestamp))
    settings = {"chunk": chunk, "job_parameters": {"between": "-"}, "state_memory_bytes": memory}
    streamed = run(ReduceOperator(Concat(), first), records, **settings)
    assert streamed.stamped == expected
    assert run(ReduceOperator(Concat(), first), records, batch=True, **settings).stamped == [
        ((key, "-".join(one.value[1] for one in sorted(group, key=_time))), MAX_WATERMARK)
        for key, group in groups.items()
    ]


def _time(record):
    return MIN_WATERMARK if record.timestamp is None else record.timestamp


@pytest.mark.parametrize("batch", [False, True])
def test_reduce_names_the_record_it_fails_at(batch):
    operator = ReduceOperator(lambda a, b: (a[0], a[1] // b[1]), first)
    with pytest.raises(UserFunctionError) as failure:
        run(operator, [("a", 4), ("a", 2), ("a", 0), ("a", 1)], batch=batch, chunk=9)
    assert failure.value.record == "('a', 0)"


class CountsByKey:
    """What the keyed functions below have in common."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def add(self):
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()


class CountMap(CountsByKey, MapFunction):
    def map(self, value):
        return (value, self.add())


class CountFlatMap(CountsByKey, FlatMapFunction):
    def flat_map(self, value):
        yield from [value] * self.add()


class EverySecond(CountsByKey, FilterFunction):
    def filter(self, value):
        return self.add() % 2 == 0


class CountCoMap(CountsByKey, CoMapFunction):
    def map1(self, value):
        return (1, value, self.add())

    def map2(self, value):
        return (2, value, self.add()) if value != "skip" else None


class CountCoFlatMap(CountsByKey, CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * self.add()

    def flat_map2(self, value):
        self.add()


def key_of(value):
    return value[0]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (KeyedMapOperator(CountMap(), key_of), [("a1", 1), ("a2", 2), ("a3", 3), ("b1", 1), ("b2", 2)]),
        (
            KeyedFlatMapOperator(CountFlatMap(), key_of),
            ["a1", "a2", "a2", "a3", "a3", "a3", "b1", "b2", "b2"],
        ),
        (KeyedFilterOperator(EverySecond(), key_of), ["a2", "b2"]),
        (KeyedMapOperator(str.upper, key_of), ["A1", "A2", "A3", "B1", "B2"]),
        (KeyedFlatMapOperator(lambda value: [value] if value > "b" else None, key_of), ["b1", "b2"]),
        (KeyedFilterOperator(lambda value: value < "b", key_of), ["a1", "a2", "a3"]),
    ],
)
def test_keyed_functions_have_state(operator, expected, batch):
    recorded = run(operator, ["a1", "b1", "a2", "a3", "b2"], batch=batch, chunk=2)
    assert sorted(recorded.values) == expected


def test_keyed_functions_of_two_streams_share_state():
    inputs = [Record("a1"), Record("xa", number=2), Record("skip", number=2), Record("a2"), Record("b1")]
    co_map = KeyedCoMapOperator(CountCoMap(), key_of, lambda value: value[1])
    assert run(co_map, inputs).values == [(1, "a1", 1), (2, "xa", 2), (1, "a2", 3), (1, "b1", 1)]
    co_flat_map = KeyedCoFlatMapOperator(CountCoFlatMap(), key_of, lambda value: value[1])
    assert run(co_flat_map, inputs).values == ["a1", "a2", "a2", "a2", "b1"]


class Both(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield (1, value, ctx.timestamp(), ctx.timer_service().current_watermark())

    def process_element2(self, value, ctx):
        return [(2, value, ctx.timestamp(), ctx.timer_service().current_processing_time())]


def test_co_process():
    inputs = [Record("a", 4), Watermark(3), Record("b", number=2), Record("c")]
    assert run(CoProcessOperator(Both()), inputs, clock=Clock(9)).values == [
        (1, "a", 4, MIN_WATERMARK),
        (2, "b", MIN_WATERMARK, 9),
        (1, "c", MIN_WATERMARK, 3),
    ]


@pytest.mark.parametrize(
    "call",
    [
        "register_event_time_timer",
        "register_processing_time_timer",
        "delete_event_time_timer",
        "delete_processing_time_timer",
    ],
)
def test_without_keys_there_are_no_timers(call):
    class Timer(ProcessFunction):
        def process_element(self, value, ctx):
            getattr(ctx.timer_service(), call)(1)

    with pytest.raises(UserFunctionError, match="is only supported on a keyed stream"):
        run(ProcessOperator(Timer()), [1])


def test_plain_callables_and_partials_reduce():
    add = functools.partial(lambda extra, a, b: (a[0], a[1] + b[1] + extra), 10)
    assert run(ReduceOperator(add, first), [("a", 1), ("a", 2)]).values == [("a", 1), ("a", 13)]
