"""Streams that are connected with others, and those that wait for others."""

from typing import Any

import pytest

from penstock.engine.pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.async_functions import FixedDelayRetryStrategy
from penstock.operators.state.interfaces import MapStateDescriptor
from tests.engine.pyflink.datastream.helpers import environment, first, pairs, transformations


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
    keyed = pairs(env).key_by(first).connect(pairs(env).key_by(lambda v: str(v[1])))
    also = pairs(env).connect(pairs(env)).key_by(first, lambda v: str(v[1]), Types.STRING())
    for connected in (keyed, also):
        made = [connected.map(Both()), connected.flat_map(BothFlat()), connected.process(KeyedJoined())]
        assert [one.get_name() for one in made] == ["Co-Map", "Co-Flat Map", "Keyed Co-Process"]
        for one in made:
            selectors = one._transformation.key_selectors
            assert [selector(("a", 7)) for selector in selectors] == ["a", "7"]
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
    assert {one._transformation.kind for one in made} == {"one_input"}
    assert {one.get_name() for one in made} == {"async wait operator"}
    with pytest.raises(TypeError, match="async def"):
        AsyncDataStream.ordered_wait(stream, Hurry(), Time.seconds(1))
    with pytest.raises(TypeError, match="AsyncFunction"):
        AsyncDataStream.ordered_wait(stream, str, Time.seconds(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AsyncRetryStrategy"):
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(1), None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must be above 0 ms"):
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(0), retry)
    with pytest.raises(ValueError, match="must have a retry predicate"):
        AsyncDataStream.ordered_wait_with_retry(stream, Wait(), Time.seconds(1), Never(3, 10, None, None))
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        AsyncDataStream.ordered_wait(stream, Wait(), Time.seconds(1), 0)
