"""What each call on a stream builds."""

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.pyflink.datastream import (
    KeySelector,
    MapFunction,
    Partitioner,
)
from penstock.operators.common.time import TimestampAssigner, WatermarkStrategy
from penstock.operators.common.typeinfo import Types
from tests.engine.pyflink.datastream.helpers import (
    PAIR,
    Nothing,
    environment,
    first,
    pairs,
    shape,
    transformations,
)


class AddOne(MapFunction):
    def map(self, value: Any) -> Any:
        return value + 1


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1


def test_names_and_types() -> None:
    env = environment()
    stream = pairs(env)
    made = [
        stream.map(str),
        stream.map(AddOne(), output_type=Types.INT()),
        stream.flat_map(lambda v: [v], output_type=[Types.INT()]),
        stream.filter(lambda v: True),
        stream.process(Nothing(), output_type=Types.PICKLED_BYTE_ARRAY()),
        stream.project(1, 0),
        stream.filter(pc.field("f1") > 1),
        stream.map_batches(lambda batch: batch, pa.schema([("n", pa.int64())])),
    ]
    assert [(one.get_name(), one.get_type()) for one in made] == [
        ("Map", Types.PICKLED_BYTE_ARRAY()),
        ("Map", Types.INT()),
        ("FlatMap", Types.ROW([Types.INT()])),
        ("Filter", PAIR),
        ("PROCESS", Types.PICKLED_BYTE_ARRAY()),
        ("Projection", Types.TUPLE([Types.INT(), Types.STRING()])),
        ("Filter", PAIR),
        ("Map Batches", Types.ROW_NAMED(["n"], [Types.LONG()])),
    ]
    assert shape(env) == [
        ("legacy_source", "Collection Source", []),
        *(("one_input", one.get_name(), [1]) for one in made),
    ]
    assert stream.get_execution_environment() is env
    assert stream.get_execution_config() is env.get_config()


def test_settings_of_an_operator() -> None:
    env = environment()
    stream = pairs(env).map(str)
    stream.name("text").uid("u").set_uid_hash("0" * 32).set_parallelism(3).set_max_parallelism(9)
    stream.set_buffer_timeout(5).start_new_chain().slot_sharing_group("g").set_description("as text")
    row = transformations(env)[1]
    assert row == {
        "id": 2,
        "kind": "one_input",
        "name": "text",
        "inputs": [1],
        "parallelism": 3,
        "max_parallelism": 9,
        "uid": "u",
        "uid_hash": "0" * 32,
        "slot_sharing_group": "g",
        "buffer_timeout": 5,
        "chaining": "HEAD",
    }
    assert stream._transformation.description == "as text"
    stream.disable_chaining().set_parallelism(-1)
    row = transformations(env)[1]
    assert row["chaining"] == "NEVER"
    assert row["parallelism"] == -1  # the job's, as in Flink
    stream.force_non_parallel()
    with pytest.raises(ValueError, match="of a non-parallel operator must be 1, got 2"):
        stream.set_parallelism(2)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_parallelism", 0),
        ("set_parallelism", -2),
        ("set_max_parallelism", 0),
        ("set_max_parallelism", 40_000),
        ("set_uid_hash", "xyz"),
        ("set_buffer_timeout", -2),
    ],
)
def test_wrong_settings(method: str, value: Any) -> None:
    with pytest.raises(ValueError, match=str(value)):
        getattr(pairs(environment()).map(str), method)(value)


@pytest.mark.parametrize(
    "method", ["name", "uid", "set_parallelism", "get_name", "disable_chaining", "set_description"]
)
def test_virtual_streams_have_no_operator(method: str) -> None:
    stream = pairs(environment())
    arguments = {"set_parallelism": [1], "get_name": [], "disable_chaining": []}.get(method, ["a"])
    for virtual in (stream.rebalance(), stream.union(stream)):
        with pytest.raises(TypeError, match=r"does not have an operator|because it has no operator"):
            getattr(virtual, method)(*arguments)


def test_partitioners() -> None:
    env = environment()
    stream = pairs(env)
    for one in (
        stream.shuffle(),
        stream.rebalance(),
        stream.rescale(),
        stream.forward(),
        stream.broadcast(),
        stream.global_(),
        stream.partition_custom(lambda key, n: 0, first),
    ):
        assert one.get_type() == PAIR
        one.map(str)
    rows = transformations(env)
    names = ["shuffle", "rebalance", "rescale", "forward", "broadcast", "global"]
    assert [row["partitioner"] for row in rows if row["kind"] == "partition"] == names
    assert "_keyed_stream_values_operator" in [row["name"] for row in rows]


class Second(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[1]


class Opened(Second):
    times = 0

    def open(self, runtime_context: Any) -> None:
        self.times += 1

    def get_key(self, value: Any) -> Any:
        return (self.times, value[1])


class Modulo(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key) % num_partitions


def test_selectors_and_partitioners_are_functions() -> None:
    stream = pairs(environment())
    one = stream.partition_custom(Modulo(), Second())._transformation
    assert one.key_selector is not None
    assert one.custom_partitioner is not None
    assert one.custom_partitioner(one.key_selector(("a", 7)), 4) == 3
    assert stream.key_by(Second())._transformation.key_selector(("a", 7)) == 7  # type: ignore[misc]
    opened = pickle.loads(pickle.dumps(stream.key_by(Opened())._transformation.key_selector))
    opened.open(None)
    assert [opened(("a", 7)), opened(("a", 8))] == [(1, 7), (1, 8)]


def test_what_is_no_function() -> None:
    stream = pairs(environment())
    for method in ("map", "flat_map", "filter", "process", "key_by", "map_batches"):
        with pytest.raises(TypeError):
            getattr(stream, method)(1)
    with pytest.raises(TypeError, match="ProcessFunction"):
        stream.process(lambda value, ctx: ())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="output type must be a type such as"):
        stream.map(str, output_type=5)
    with pytest.raises(ValueError, match="'a itn': 'itn' is not a type"):
        stream.map(str, output_type="a itn")
    with pytest.raises(TypeError):
        stream.partition_custom(1, first)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="MapStateDescriptor"):
        stream.broadcast("state")  # type: ignore[call-overload]


def test_projection_needs_tuples_and_fields() -> None:
    stream = pairs(environment())
    with pytest.raises(TypeError, match="must have a tuple type"):
        stream.map(str).project(0)
    with pytest.raises(IndexError, match="must be from 0 to 1, got 2"):
        stream.project(2)
    with pytest.raises(ValueError, match="must get 1 to 24 fields"):
        stream.project()


def test_union_needs_one_type() -> None:
    env = environment()
    stream = pairs(env)
    stream.union(stream.filter(bool), stream).print()
    assert shape(env)[2:] == [("union", "Union", [1, 2, 1]), ("sink", "Print to Std. Out", [3])]
    with pytest.raises(TypeError, match="must have the same type"):
        stream.union(stream.map(str))


def test_vectorised_functions_need_columns() -> None:
    stream = pairs(environment()).map(str)
    with pytest.raises(TypeError, match="without a declared type"):
        stream.map_batches(lambda batch: batch)


def test_timestamps() -> None:
    env = environment(parallelism=3)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    plain = pairs(env).assign_timestamps_and_watermarks(strategy)
    pairs(env).map(str).set_parallelism(5).assign_timestamps_and_watermarks(strategy)
    assigner = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    stamped = pairs(env).assign_timestamps_and_watermarks(assigner)
    assert plain.get_type() == stamped.get_type() == PAIR
    names = ("Timestamps/Watermarks", "Remove-Timestamp")
    found = [row.get("parallelism") for row in transformations(env) if row["name"] in names]
    # with an assigner as the environment, else as the input
    assert found == [1, 5, None]


def test_parallelism_is_that_of_the_moment() -> None:
    env = environment(parallelism=3)
    first_map = pairs(env).map(str)
    env.set_parallelism(4)
    first_map.map(str)
    rows = transformations(env)
    assert [row.get("parallelism") for row in rows] == [1, 3, None]
    assert env.new_job().parallelism == 4
