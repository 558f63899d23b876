"""Streams by key."""

from typing import Any

import pytest

from penstock.engine.pyflink.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
)
from penstock.operators.common.typeinfo import Types
from tests.engine.pyflink.datastream.helpers import PAIR, environment, first, pairs, shape


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()


def test_keyed_operators_stand_behind_a_hash_partition() -> None:
    env = environment()
    keyed = pairs(env).key_by(first, key_type=Types.STRING())
    assert keyed.get_type() == Types.ROW([Types.STRING(), PAIR])  # as in PyFlink
    assert pairs(env).key_by(first).get_type() == Types.ROW([Types.PICKLED_BYTE_ARRAY(), PAIR])
    assert pairs(env).key_by("f0").get_type() == PAIR
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
    assert [kind for kind, _, _ in shape(env)] == ["legacy_source", "partition", "partition", "one_input"]


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
