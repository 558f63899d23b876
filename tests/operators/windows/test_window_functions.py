"""What window functions are given: keys, contexts, state; side outputs."""

# mypy: disable-error-code="arg-type,method-assign,type-arg,var-annotated"

import pytest

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.operators.state.interfaces import ListStateDescriptor, ValueStateDescriptor
from penstock.operators.windows.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.window_functions import (
    InternalIterableAllWindowFunction,
    InternalIterableProcessAllWindowFunction,
    InternalIterableProcessWindowFunction,
    InternalIterableWindowFunction,
    InternalSingleValueAllWindowFunction,
    InternalSingleValueProcessAllWindowFunction,
    InternalSingleValueProcessWindowFunction,
    InternalSingleValueWindowFunction,
    aggregated,
    buffered,
    reduced,
)
from tests.operator_harness import Record, Watermark, run
from tests.operators.windows.window_jobs import KINDS, Numbers, Show, counted, join_numbers, operator, stamped

WAYS = pytest.mark.parametrize("by_trigger", [False, True])
TEN = TumblingEventTimeWindows(10, 0)


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return [("apply", key, window.start, list(inputs))]


class ApplyAll(AllWindowFunction):
    def apply(self, window, inputs):
        return [("apply all", window.start, list(inputs))]


class ProcessAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        return [("process all", context.window().start, list(elements))]


VALUES = counted([("a", 1), ("b", 2), ("a", 3)])


@WAYS
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (reduced(join_numbers, Apply()), ("apply", "a", 0, [("a", 3, "0,2")])),
        (aggregated(Numbers(), Apply()), ("apply", "a", 0, ["0|2"])),
        (buffered(Apply()), ("apply", "a", 0, [("a", 1, 0), ("a", 3, 2)])),
        (reduced(join_numbers, ApplyAll()), ("apply all", 0, [("a", 3, "0,2")])),
        (aggregated(Numbers(), ProcessAll()), ("process all", 0, ["0|2"])),
        (buffered(ApplyAll()), ("apply all", 0, [("a", 1, 0), ("a", 3, 2)])),
        (buffered(ProcessAll()), ("process all", 0, [("a", 1, 0), ("a", 3, 2)])),
    ],
)
def test_kinds_of_functions(by_trigger, function, expected):
    made = operator(TEN, function, by_trigger=by_trigger)
    assert run(made, stamped(VALUES)).stamped[0] == (expected, 9)


@pytest.mark.parametrize(
    ("function", "single", "iterable"),
    [
        (Apply(), InternalSingleValueWindowFunction, InternalIterableWindowFunction),
        (ApplyAll(), InternalSingleValueAllWindowFunction, InternalIterableAllWindowFunction),
        (Show(), InternalSingleValueProcessWindowFunction, InternalIterableProcessWindowFunction),
        (ProcessAll(), InternalSingleValueProcessAllWindowFunction, InternalIterableProcessAllWindowFunction),
    ],
)
def test_pyflinks_class_for_each_kind(function, single, iterable):
    assert type(reduced(join_numbers, function).window_function) is single
    assert type(aggregated(Numbers(), function).window_function) is single
    assert type(buffered(function).window_function) is iterable


def test_other_functions_are_refused():
    for make in (lambda: reduced(join_numbers, len), lambda: buffered(len), lambda: buffered(None)):
        with pytest.raises(TypeError, match=r"[Ww]indow.function"):
            make()
    with pytest.raises(TypeError):
        reduced("not a function")
    with pytest.raises(TypeError):
        aggregated(len)


class Stateful(ProcessWindowFunction):
    in_window = ValueStateDescriptor("n", Types.INT())
    of_key = ListStateDescriptor("seen", Types.INT())

    def process(self, key, context, elements):
        here, everywhere = (
            context.window_state().get_state(self.in_window),
            context.global_state().get_list_state(self.of_key),
        )
        here.update((here.value() or 0) + 1)
        everywhere.add(context.window().start)
        yield (key, context.window().start, here.value(), list(everywhere.get()), context.current_watermark())

    def clear(self, context):
        assert context.window_state().get_state(self.in_window).value(), "cleared once, after it has fired"
        context.window_state().get_state(self.in_window).clear()


@WAYS
def test_state_of_window_and_key(by_trigger):
    made = operator(TEN, buffered(Stateful()), allowed_lateness_milliseconds=5, by_trigger=by_trigger)
    recorded = run(
        made,
        [*stamped(counted([("a", 1), ("b", 2)])), Watermark(9), *stamped(counted([("a", 3), ("a", 11)]))],
    )
    assert recorded.values == [
        ("a", 0, 1, [0], 9),
        ("b", 0, 1, [0], 9),
        ("a", 0, 2, [0, 0], 9),
        ("a", 10, 1, [0, 0, 10], 2**63 - 1),
    ]
    assert not made.backend.table("n", namespaced=True).entries


@WAYS
def test_state_of_one_key_only_in_batch(by_trigger):
    made = operator(SlidingEventTimeWindows(10, 5, 0), buffered(Stateful()), by_trigger=by_trigger)
    recorded = run(made, stamped(counted([("a", 7), ("b", 6)])), batch=True)
    assert [value[:4] for value in recorded.values] == [
        ("a", 0, 1, [0]),
        ("a", 5, 1, [0, 5]),
        ("b", 0, 1, [0]),
        ("b", 5, 1, [0, 5]),
    ]


@WAYS
def test_merging_windows_have_no_state(by_trigger):
    made = operator(EventTimeSessionWindows(5), buffered(Stateful()), by_trigger=by_trigger)
    with pytest.raises(Exception, match="Per-window state is not allowed"):
        run(made, stamped(VALUES))


@WAYS
def test_side_outputs_and_no_results(by_trigger):
    tag = OutputTag("odd")

    class Split(ProcessWindowFunction):
        def process(self, key, context, elements):
            if key == "none":
                return None
            return [(tag, key), key]

    made = operator(TEN, buffered(Split()), by_trigger=by_trigger)
    recorded = run(made, stamped(counted([("a", 1), ("none", 2)])))
    assert recorded.events[:2] == [("record", "a", 9), ("side", "odd", "a", 9)]
    assert len(recorded.events) == 3


def test_functions_are_opened_and_closed():
    calls: list = []

    class Watched(Show):
        def open(self, runtime_context):
            calls.append(("open", runtime_context.get_index_of_this_subtask()))

        def close(self):
            calls.append("close")

    run(operator(TEN, buffered(Watched())), stamped(VALUES), subtask=3)
    assert calls == [("open", 3), "close"]


@WAYS
def test_a_reduce_function_may_change_its_first_argument(by_trigger):
    class Extend(ReduceFunction):
        def reduce(self, value1, value2):
            value1[2].extend(value2[2])
            return value1

    assigner = SlidingEventTimeWindows(10, 5, 0)
    values = [("a", 6, [1]), ("a", 7, [2]), ("a", 11, [3])]
    recorded = run(operator(assigner, reduced(Extend()), by_trigger=by_trigger), stamped(values), chunk=1)
    assert recorded.stamped == [
        (("a", 6, [1, 2]), 9),
        (("a", 6, [1, 2, 3]), 14),
        (("a", 11, [3]), 19),
    ]


@WAYS
def test_none_of_an_aggregate_function_is_no_result(by_trigger):
    class Silent(Numbers):
        def get_result(self, accumulator):
            return None if 0 in accumulator else accumulator

    made = operator(TEN, aggregated(Silent()), by_trigger=by_trigger)
    assert run(made, stamped(VALUES)).values == [(1,)]


@WAYS
@pytest.mark.parametrize("bad", ["a", 2**31, None])
def test_accumulators_of_other_types_are_refused(by_trigger, bad):
    class Last(Numbers):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return value[1] if accumulator == 0 else bad

        def get_result(self, accumulator):
            return accumulator

        def merge(self, accumulator_a, accumulator_b):
            return accumulator_a

    def made():
        return operator(TEN, aggregated(Last(), None, Types.INT()), by_trigger=by_trigger)

    assert run(made(), stamped([("a", 1), ("b", 2)])).values == [1, 2]
    with pytest.raises(UserFunctionError, match=r"(TypeError|OverflowError): .*Integer"):
        run(made(), stamped([("a", 1), ("a", 2)]))


@WAYS
def test_reduced_values_of_other_types_are_refused(by_trigger):
    class Wrong(ReduceFunction):
        def reduce(self, value1, value2):
            return (value1[0], "x")

    pairs = Types.TUPLE([Types.STRING(), Types.INT()])
    made = operator(TEN, reduced(Wrong(), None, pairs), by_trigger=by_trigger)
    with pytest.raises(UserFunctionError, match=r"TypeError: .*Integer"):
        run(made, stamped([("a", 1), ("a", 2)]))


def test_contents_of_count_windows_go_when_they_have_fired():
    made = operator(CountTumblingWindowAssigner.of(2), KINDS["process"]())
    made.close = lambda: None  # so that the state can be looked at
    recorded = run(made, [Record(("a", 0, n)) for n in range(5)])
    assert [len(value[3]) for value in recorded.values] == [2, 2]
    contents = made.backend.table("window-contents", namespaced=True).entries
    assert [len(some) for some in contents.values()] == [1]
