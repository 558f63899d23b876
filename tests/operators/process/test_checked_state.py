"""State refuses values that are not of its declared types, as PyFlink's coders do."""

import pytest

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant, Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import AggregateFunction, KeyedProcessFunction, ReduceFunction
from penstock.operators.process.keyed_process_operators import KeyedProcessOperator, ReduceOperator
from penstock.operators.state.interfaces import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.operators.state.ttl_config import StateTtlConfig
from tests.operator_harness import run

#: In a chain each of them becomes a UserFunctionError that names the operator.
REFUSED = (UserFunctionError, TypeError, OverflowError, ValueError)


class Put(KeyedProcessFunction):
    def __init__(self, descriptor, put):
        self.descriptor, self.put = descriptor, put

    def open(self, runtime_context):
        kind = type(self.descriptor)
        get = {
            ValueStateDescriptor: runtime_context.get_state,
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
        }[kind]
        self.state = get(self.descriptor)

    def process_element(self, value, ctx):
        self.put(self.state, value)
        yield value


INSTANT = ValueStateDescriptor("i", Types.INSTANT())
ROW = ValueStateDescriptor("r", Types.ROW([Types.INT(), Types.STRING()]))
ROWS = ListStateDescriptor("rs", Types.LIST(Types.ROW([Types.INT(), Types.STRING()])))
VALUE = ValueStateDescriptor("v", Types.INT())
LIST = ListStateDescriptor("l", Types.STRING())
MAP = MapStateDescriptor("m", Types.INT(), Types.TUPLE([Types.INT()]))


@pytest.mark.parametrize(
    ("descriptor", "put", "good", "bad"),
    [
        (VALUE, lambda state, value: state.update(value), [1, True, 1.5], ["a", 2**31, (1,), None]),
        (INSTANT, lambda state, value: state.update(value), [Instant(1, 2), None], ["a"]),
        (ROW, lambda state, value: state.update(value), [Row(1, "a"), Row(None, None)], [(1, "a"), Row(1)]),
        (ROWS, lambda state, value: state.add(value), [[Row(1, "a"), None]], [[1], (Row(1, "a"),), None]),
        (LIST, lambda state, value: state.add(value), ["a"], [1, None]),
        (LIST, lambda state, value: state.update([value]), ["a"], [1, None]),
        (LIST, lambda state, value: state.add_all(iter([value])), ["a"], [b"a"]),
        (MAP, lambda state, value: state.put(value, (1,)), [1], ["a", None]),
        (MAP, lambda state, value: state.put(1, value), [(1,), None], ["a", ("a",)]),
        (MAP, lambda state, value: state.put_all({1: value}), [(1,)], [1]),
        (MAP, lambda state, value: state.get(value), [1], ["a"]),
    ],
)
def test_values_of_other_types_are_refused(descriptor, put, good, bad):
    for value in good:
        assert run(KeyedProcessOperator(Put(descriptor, put), lambda _: 0), [value]).values == [value]
    for value in bad:
        with pytest.raises(REFUSED):
            run(KeyedProcessOperator(Put(descriptor, put), lambda _: 0), [value])


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("expiring", [False, True])
@pytest.mark.parametrize(
    ("last", "raises"),
    [([None], True), ([None, 1], False), (["a", 1], False), ([None, "clear"], False), ([1, None], True)],
)
def test_the_value_that_is_left_counts(batch, expiring, last, raises):
    descriptor = ValueStateDescriptor("v", Types.INT())
    if expiring:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())

    def put(state, value):
        if value == "clear":
            state.clear()
        else:
            state.update(value)
            assert state.value() == value

    operator = KeyedProcessOperator(Put(descriptor, put), lambda _: "k")
    if not raises:
        assert run(operator, last, batch=batch).values == last
        return
    with pytest.raises(TypeError, match=r"state 'v' of key 'k': must be .*, got None of class NoneType"):
        run(operator, last, batch=batch)


def test_state_is_checked_every_thousand_records():
    """PyFlink encodes what is left of a bundle of that many records; what comes later does not help."""
    operator = KeyedProcessOperator(Put(VALUE, lambda state, value: state.update(value)), lambda _: 0)
    with pytest.raises(TypeError, match="state 'v'"):
        run(operator, [None] * 1000 + [1], chunk=1000)


def test_what_is_added_to_reducing_state_need_not_be_of_its_type():
    class Add(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ReducingStateDescriptor("r", lambda a, b: a + int(b), Types.INT())
            self.state = runtime_context.get_reducing_state(descriptor)

        def process_element(self, value, ctx):
            self.state.add(value)
            yield self.state.get()

    assert run(KeyedProcessOperator(Add(), lambda _: 0), [1, "2"]).values == [1, 3]
    with pytest.raises(TypeError, match=r"state 'r' of key 0: must be .*, got '1' of class str"):
        run(KeyedProcessOperator(Add(), lambda _: 0), ["1"])


@pytest.mark.parametrize("batch", [False, True])
def test_what_is_reduced_is_of_the_declared_type(batch):
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    values = [("a", 1), ("a", 2), ("b", 1)]
    wrong = ReduceOperator(lambda a, b: (a[0], str(b[1])), lambda value: value[0], pair)
    with pytest.raises(TypeError, match=r"of key 'a': must be Integer, got '2' of class str"):
        run(wrong, values, batch=batch)
    undeclared = ReduceOperator(lambda a, b: (a[0], str(b[1])), lambda value: value[0])
    assert ("a", "2") in run(undeclared, values, batch=batch).values


class Accumulated(AggregateFunction):
    """Its accumulator is whatever record came last."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return value if value != "nothing" else None

    def get_result(self, accumulator):
        return accumulator

    def merge(self, accumulator_a, accumulator_b):
        return accumulator_a


def test_accumulators_of_other_types_are_refused():
    class Add(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = AggregatingStateDescriptor("a", Accumulated(), Types.INT())
            self.state = runtime_context.get_aggregating_state(descriptor)

        def process_element(self, value, ctx):
            self.state.add(value)
            yield self.state.get()

    assert run(KeyedProcessOperator(Add(), lambda _: 0), [1, 1.5]).values == [1, 1.5]
    for bad in ("a", "nothing", 2**31):
        with pytest.raises(REFUSED):
            run(KeyedProcessOperator(Add(), lambda _: 0), [bad])


class Counted(ReduceFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def reduce(self, value1, value2):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return (value1[0], count)


@pytest.mark.parametrize("batch", [False, True])
def test_a_reduce_function_has_state_of_its_key(batch):
    values = [("a", 0), ("b", 0), ("a", 0), ("b", 0), ("a", 0)]
    found = run(ReduceOperator(Counted(), lambda value: value[0]), values, batch=batch, chunk=5).values
    every = [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)]
    assert found == ([("a", 2), ("b", 1)] if batch else every)
