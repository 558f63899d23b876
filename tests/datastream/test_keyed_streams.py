"""Streams by key, in windows, connected and waiting for others."""

from typing import Any

import pytest

from engine.common.time import Time
from engine.common.typeinfo import Types
from engine.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from engine.datastream.async_retry_strategies import FixedDelayRetryStrategy
from engine.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from engine.datastream.state import MapStateDescriptor
from engine.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    NeverTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)
from tests.datastream.helpers import PAIR, environment, first, pairs, shape, transformations


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()


def test_keyed_operators_stand_behind_a_hash_partition() -> None:
    env = environment()
    keyed = pairs(env).key_by(first, key_type=Types.STRING())
    assert keyed.get_type() == PAIR
    made = [
        keyed.map(str),
        keyed.flat_map(lambda v: [v], output_type=PAIR),
        keyed.filter(bool),
        keyed.reduce(lambda a, b: a),
        keyed.sum(1),
        keyed.min(1),
        keyed.max(1),
        keyed.min_by(1),
        keyed.max_by("f1"),
        keyed.process(Keyed(), output_type=Types.INT()),
    ]
    assert [(one.get_name(), one.get_type()) for one in made] == [
        ("Map", Types.PICKLED_BYTE_ARRAY()),
        ("FlatMap", PAIR),
        ("Filter", PAIR),
        ("Reduce", PAIR),
        ("Reduce", PAIR),
        ("Reduce", PAIR),
        ("Reduce", PAIR),
        ("Reduce", PAIR),
        ("Reduce", PAIR),
        ("KEYED PROCESS", Types.INT()),
    ]
    partition = keyed._transformation
    assert (partition.partitioner, partition.key_type) == ("hash", Types.STRING())
    for one in made:
        transformation = one._transformation
        assert transformation.inputs == [partition]
        assert transformation.operator.keyed
        assert [selector(("k", 1)) for selector in transformation.key_selectors] == ["k"]


def test_keys_of_no_declared_type() -> None:
    assert pairs(environment()).key_by(first)._transformation.key_type is None


def test_key_by_again_replaces_the_keys() -> None:
    env = environment()
    stream = pairs(env)
    again = stream.key_by(first).key_by(lambda pair: pair[1])
    assert again._transformation.inputs == [stream._transformation]
    again.map(str)
    assert [kind for kind, _, _ in shape(env)] == ["legacy_source", "partition", "one_input"]


REFUSED: dict[str, list[Any]] = {
    "set_parallelism": [1],
    "name": ["n"],
    "get_name": [],
    "uid": ["u"],
    "set_uid_hash": ["0" * 32],
    "set_max_parallelism": [1],
    "force_non_parallel": [],
    "set_buffer_timeout": [1],
    "start_new_chain": [],
    "disable_chaining": [],
    "slot_sharing_group": ["g"],
    "set_description": ["d"],
}


@pytest.mark.parametrize("method", REFUSED)
def test_settings_that_keyed_and_cached_streams_refuse(method: str) -> None:
    stream = pairs(environment())
    for one, name in ((stream.key_by(first), "KeyedStream"), (stream.cache(), "CachedDataStream")):
        with pytest.raises(TypeError, match=f"{method} of a {name} is not supported"):
            getattr(one, method)(*REFUSED[method])


@pytest.mark.parametrize("method", ["shuffle", "rebalance", "rescale", "forward", "broadcast", "global_"])
def test_partitioning_of_keyed_streams_stays(method: str) -> None:
    with pytest.raises(TypeError, match="cannot be overridden"):
        getattr(pairs(environment()).key_by(first), method)()


def test_what_keyed_streams_refuse() -> None:
    keyed = pairs(environment()).key_by(first)
    with pytest.raises(TypeError, match="cannot be overridden"):
        keyed.partition_custom(lambda key, n: 0, first)
    with pytest.raises(TypeError, match="cache of a KeyedStream"):
        keyed.cache()
    with pytest.raises(TypeError, match="KeyedProcessFunction"):
        keyed.process(Plain())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a number or a name"):
        keyed.sum(1.5)  # type: ignore[arg-type]
    for method in ("map", "flat_map", "filter", "reduce"):
        with pytest.raises(TypeError):
            getattr(keyed, method)(1)


def test_union_and_projection_of_keyed_streams() -> None:
    env = environment()
    keyed = pairs(env).key_by(first)
    assert keyed.union(pairs(env)).get_type() == PAIR
    assert keyed.project(1).get_type() == Types.TUPLE([Types.INT()])
    assert pairs(env).union(keyed).get_type() == PAIR


class Apply(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return ()


class Process(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return ()


class ApplyAll(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Any) -> Any:
        return ()


class ProcessAll(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Any) -> Any:
        return ()


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def test_windows() -> None:
    env = environment()
    windowed = pairs(env).key_by(first).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    assert windowed.get_execution_environment() is env
    assert windowed.get_input_type() == PAIR
    made = [
        windowed.reduce(lambda a, b: a),
        windowed.reduce(lambda a, b: a, Apply(), Types.INT()),
        windowed.aggregate(Count(), output_type=Types.INT()),
        windowed.aggregate(Count(), window_function=Process(), accumulator_type=Types.INT()),
        windowed.apply(Apply()),
        windowed.process(Process(), Types.INT()),
    ]
    pickled = Types.PICKLED_BYTE_ARRAY()
    assert [one.get_type() for one in made] == [PAIR, Types.INT(), Types.INT(), pickled, pickled, Types.INT()]
    assert {one.get_name() for one in made} == {"TumblingEventTimeWindows"}
    assert [one._transformation.description for one in made] == [
        f"Window(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, {functions})"
        for functions in ("function", "function, Apply", "Count", "Count, Process", "Apply", "Process")
    ]
    for one in made:
        assert len(one._transformation.key_selectors) == 1


def test_settings_of_windows() -> None:
    late = OutputTag("late", PAIR)
    keyed = pairs(environment()).key_by(first)
    result = (
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .trigger(PurgingTrigger.of(CountTrigger.of(2)))
        .allowed_lateness(700)
        .side_output_late_data(late)
        .process(Process())
    )
    operator = result._transformation.operator
    assert (operator.allowed_lateness, operator.late_tag) == (700, "late")
    assert isinstance(operator.trigger, PurgingTrigger)
    assert result.get_side_output(late).get_type() == PAIR
    with pytest.raises(ValueError, match="allowed lateness -1"):
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).allowed_lateness(-1)


def test_count_windows() -> None:
    keyed = pairs(environment()).key_by(first)
    assert keyed.count_window(2).apply(Apply()).get_name() == "CountTumblingWindowAssigner"
    assert keyed.count_window(4, 2).apply(Apply()).get_name() == "CountSlidingWindowAssigner"


def test_windows_over_all() -> None:
    env = environment()
    windowed = pairs(env).window_all(TumblingEventTimeWindows.of(Time.seconds(5)))
    made = [
        windowed.reduce(lambda a, b: a, ProcessAll()),
        windowed.aggregate(Count(), ApplyAll()),
        windowed.apply(ApplyAll()),
        windowed.process(ProcessAll()),
    ]
    for one in made:
        (selector,) = one._transformation.key_selectors
        assert selector(("a", 1)) == selector(("b", 2)) == 0
    assert made[3]._transformation.description == (
        "AllWindow(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, ProcessAll)"
    )


def test_wrong_window_functions() -> None:
    stream = pairs(environment())
    keyed = stream.key_by(first).window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    over_all = stream.window_all(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    for call in (
        lambda: keyed.reduce(lambda a, b: a, ProcessAll()),  # type: ignore[arg-type]
        lambda: keyed.aggregate(Count(), lambda *_: ()),  # type: ignore[arg-type]
        lambda: keyed.aggregate(lambda *_: ()),  # type: ignore[arg-type]
        lambda: keyed.apply(Process()),  # type: ignore[arg-type]
        lambda: keyed.process(Apply()),  # type: ignore[arg-type]
        lambda: over_all.process(Process()),  # type: ignore[arg-type]
        lambda: over_all.reduce(1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


class CannotMerge(NeverTrigger[Any]):
    def can_merge(self) -> bool:
        return False


def test_triggers_of_windows_that_merge() -> None:
    stream = pairs(environment())
    sessions: Any = EventTimeSessionWindows.with_gap(Time.seconds(5))
    with pytest.raises(TypeError, match="which CannotMerge cannot"):
        stream.window_all(sessions).trigger(CannotMerge())
    stream.key_by(first).window(sessions).trigger(CannotMerge())  # PyFlink does not look there


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return [value]

    def flat_map2(self, value: Any) -> Any:
        return [value]


class Joined(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return ()


class KeyedJoined(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return ()


def test_connected_streams() -> None:
    env = environment()
    connected = pairs(env).connect(pairs(env).map(str))
    made = [
        connected.map(Both(), Types.INT()),
        connected.flat_map(BothFlat(), Types.INT()),
        connected.process(Joined(), Types.INT()),
    ]
    assert [one.get_name() for one in made] == ["Co-Map", "Co-Flat Map", "Co-Process"]
    for one in made:
        assert one.get_type() == Types.INT()
        assert one._transformation.kind == "two_input"
        assert one._transformation.key_selectors == ()
    assert transformations(env)[3]["inputs"] == [1, 3]
    assert connected.process(KeyedJoined()).get_name() == "Co-Process"
    for method in ("map", "flat_map", "process"):
        with pytest.raises(TypeError):
            getattr(connected, method)(str)


def test_connected_streams_by_key() -> None:
    env = environment()
    keyed = pairs(env).key_by(first).connect(pairs(env).key_by(lambda v: v[1]))
    also = pairs(env).connect(pairs(env)).key_by(first, lambda v: v[1], Types.STRING())
    for connected in (keyed, also):
        made = [connected.map(Both()), connected.flat_map(BothFlat()), connected.process(KeyedJoined())]
        assert [one.get_name() for one in made] == ["Co-Map", "Co-Flat Map", "Keyed Co-Process"]
        for one in made:
            selectors = one._transformation.key_selectors
            assert [selector(("a", 7)) for selector in selectors] == ["a", 7]
            assert [given.partitioner for given in one._transformation.inputs] == ["hash", "hash"]
            assert one._transformation.operator.keyed
        assert connected.process(Joined())._transformation.operator.keyed
    assert also.stream1._transformation.key_type == Types.STRING()


class Rules(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return ()


class KeyedRules(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        return ()


def test_broadcast_streams() -> None:
    env = environment()
    descriptor = MapStateDescriptor("rules", Types.STRING(), Types.INT())
    rules = pairs(env).broadcast(descriptor, MapStateDescriptor("more", Types.STRING(), Types.INT()))
    assert [one.get_name() for one in rules.broadcast_state_descriptors] == ["rules", "more"]
    plain = pairs(env).connect(rules).process(Rules(), Types.INT())
    keyed = pairs(env).key_by(first).connect(rules).process(KeyedRules())
    assert (plain.get_name(), keyed.get_name()) == ("Co-Process-Broadcast", "Keyed-Co-Process-Broadcast")
    assert plain.get_type() == Types.INT()
    assert plain._transformation.inputs[1].partitioner == "broadcast"
    assert len(keyed._transformation.key_selectors) == 1
    with pytest.raises(TypeError, match="without keys"):
        pairs(env).connect(rules).process(KeyedRules())
    with pytest.raises(TypeError, match="keyed stream"):
        pairs(env).key_by(first).connect(rules).process(Rules())


class Wait(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> Any:
        return [value]


class Hurry(AsyncFunction[Any, Any]):
    def async_invoke(self, value: Any) -> Any:
        return [value]


class Never(FixedDelayRetryStrategy[Any]):
    def get_retry_predicate(self) -> Any:
        return None


def test_async_streams() -> None:
    env = environment()
    stream = pairs(env)
    retry: Any = FixedDelayRetryStrategy(3, 10, None, None)
    made = [
        AsyncDataStream.unordered_wait(stream, Wait(), Time.seconds(1), output_type=Types.INT()),
        AsyncDataStream.ordered_wait(stream, Wait(), Time.seconds(2), 7),
        AsyncDataStream.unordered_wait_with_retry(stream, Wait(), Time.seconds(3), retry),
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(4), retry, 9),
    ]
    found = [one._transformation.operator for one in made]
    assert [(one.ordered, one.timeout_milliseconds, one.capacity) for one in found] == [
        (False, 1000, 100),
        (True, 2000, 7),
        (False, 3000, 100),
        (True, 4000, 9),
    ]
    assert [one.retry_strategy is retry for one in found] == [False, False, True, True]
    assert {one._transformation.kind for one in made} == {"async"}
    assert {one.get_name() for one in made} == {"async wait operator"}
    with pytest.raises(TypeError, match="async def"):
        AsyncDataStream.ordered_wait(stream, Hurry(), Time.seconds(1))
    with pytest.raises(TypeError, match="AsyncFunction"):
        AsyncDataStream.ordered_wait(stream, str, Time.seconds(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AsyncRetryStrategy"):
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(1), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout 0 ms"):
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(0), retry)
    with pytest.raises(ValueError, match="no retry predicate"):
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(1), Never(3, 10, None, None))
    with pytest.raises(ValueError, match="capacity 0"):
        AsyncDataStream.ordered_wait(stream, Wait(), Time.seconds(1), 0)
