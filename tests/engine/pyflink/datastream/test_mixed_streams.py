"""Streams with and without keys together, side outputs with settings, and functions without a base class."""

from typing import Any

import pytest

from penstock.engine.pyflink.datastream import (
    CoMapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.operators.common.time import WatermarkStrategy
from penstock.operators.common.typeinfo import Types
from penstock.operators.windows.assigners import CountTumblingWindowAssigner
from tests.engine.pyflink.datastream.helpers import environment
from tests.engine.run.runtime.run_in_process import collected


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return 1, value

    def map2(self, value: Any) -> Any:
        return 2, value


def pairs(env: StreamExecutionEnvironment) -> Any:
    return env.from_collection([("a", 1), ("b", 2)])


def first(value: Any) -> Any:
    return value[0]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_keyed_side_of_mixed_streams_has_rows_of_key_and_record(parallelism: int) -> None:
    env = environment()
    env.set_parallelism(parallelism)
    numbers = env.from_collection([10])
    for stream, keyed_side in (
        (pairs(env).key_by(first).connect(numbers), 1),
        (numbers.connect(pairs(env).key_by(first)), 2),
    ):
        found = collected(stream.map(Both()))
        rows = sorted(repr(value) for side, value in found if side == keyed_side)
        assert rows == ["Row(f0='a', f1=('a', 1))", "Row(f0='b', f1=('b', 2))"]
        assert [value for side, value in found if side != keyed_side] == [10]


@pytest.mark.parametrize(
    ("one", "other"),
    [(Types.INT(), Types.LONG()), (None, Types.STRING()), (Types.TUPLE([Types.INT()]), Types.INT())],
)
def test_keyed_streams_of_two_key_types_cannot_be_connected(one: Any, other: Any) -> None:
    env = environment()
    connected = pairs(env).key_by(first, one).connect(pairs(env).key_by(first, other))
    with pytest.raises(TypeError, match="must have one key type"):
        connected.map(Both())


def test_no_declared_type_is_that_of_pickled_bytes() -> None:
    env = environment()
    keyed = pairs(env).key_by(first, Types.PICKLED_BYTE_ARRAY())
    assert len(collected(keyed.connect(pairs(env).key_by(first)).map(Both()))) == 4


@pytest.mark.parametrize(
    "key_type",
    [
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.BASIC_ARRAY(Types.STRING()),
        Types.OBJECT_ARRAY(Types.STRING()),
        Types.TUPLE([Types.PRIMITIVE_ARRAY(Types.INT())]),
        Types.ROW([Types.ROW([Types.BASIC_ARRAY(Types.INT())])]),
    ],
)
def test_arrays_are_no_keys(key_type: Any) -> None:
    with pytest.raises(TypeError, match="arrays cannot be keys"):
        pairs(environment()).key_by(first, key_type)


def test_lists_of_arrays_and_pickles_are_keys() -> None:
    for key_type in (Types.LIST(Types.PRIMITIVE_ARRAY(Types.INT())), Types.LIST(Types.BYTE()), None):
        pairs(environment()).key_by(first, key_type)


def test_timestamps_of_a_keyed_stream_are_those_of_rows() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = pairs(environment()).key_by(first).assign_timestamps_and_watermarks(strategy)
    assert sorted(collected(stream.map(repr))) == ["Row(f0='a', f1=('a', 1))", "Row(f0='b', f1=('b', 2))"]


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value
        yield OutputTag("odd", Types.INT()), value * 10


def test_a_side_output_takes_settings() -> None:
    env = environment()
    main = env.from_collection([1, 2], Types.INT()).process(Split(), Types.INT())
    side = main.get_side_output(OutputTag("odd", Types.INT()))
    assert side.get_name() == "Map"
    side.name("tens").uid("tens").set_parallelism(2).disable_chaining().set_description("tens of odd ones")
    side.set_max_parallelism(4).slot_sharing_group("own").set_buffer_timeout(5)
    assert side.get_name() == "tens"
    assert sorted(collected(side)) == [10, 20]


class Alike:
    """Has the methods of several functions, and no base class."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return [("applied", key, len(list(inputs)))]

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return [("processed", key, len(list(elements)))]

    def clear(self, context: Any) -> None:
        pass


class Closed(Alike):
    def open(self, runtime_context: Any) -> None:
        self.opened = True

    def close(self) -> None:
        assert self.opened


@pytest.mark.parametrize("function", [Alike(), Closed()])
def test_an_object_with_the_methods_of_a_function_is_one(function: Any) -> None:
    env = environment()
    assert sorted(collected(pairs(env).process(function))) == [("a", 1), ("b", 2)]
    windows = pairs(env).key_by(first).window(CountTumblingWindowAssigner(1))
    assert sorted(collected(windows.apply(function))) == [("applied", "a", 1), ("applied", "b", 1)]
    assert sorted(collected(windows.process(function))) == [("processed", "a", 1), ("processed", "b", 1)]


class OfWindows(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return []


@pytest.mark.parametrize("function", [5, None, Alike, object(), OfWindows()])
def test_what_has_not_the_methods_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="must be a ProcessFunction"):
        pairs(environment()).process(function)
