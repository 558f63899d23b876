"""State refuses values that are not of its declared types, as PyFlink's coders do."""

import pytest

from operators.chain.errors import UserFunctionError
from operators.common.typeinfo import Types
from operators.functions.functions import AggregateFunction, ReduceFunction
from operators.functions.process_functions import KeyedProcessFunction
from operators.process.keyed_process_operators import KeyedProcessOperator
from operators.process.reduce_operator import ReduceOperator
from operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from tests.operator_harness import run


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


VALUE = ValueStateDescriptor("v", Types.INT())
LIST = ListStateDescriptor("l", Types.STRING())
MAP = MapStateDescriptor("m", Types.INT(), Types.TUPLE([Types.INT()]))


@pytest.mark.parametrize(
    ("descriptor", "put", "good", "bad"),
    [
        (VALUE, lambda state, value: state.update(value), [1, True, 1.5, None], ["a", 2**31, (1,)]),
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
        with pytest.raises(UserFunctionError, match=r"TypeError|OverflowError"):
            run(KeyedProcessOperator(Put(descriptor, put), lambda _: 0), [value])


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
        with pytest.raises(UserFunctionError, match=r"TypeError|OverflowError"):
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
