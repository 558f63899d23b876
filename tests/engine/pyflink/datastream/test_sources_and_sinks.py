"""What calls build that make a stream or end it."""

from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from penstock.engine.pyflink.datastream import (
    DataStream,
    OutputTag,
    StreamExecutionEnvironment,
)
from penstock.operators.common.spark_types import SparkTypeInfo
from penstock.operators.common.time import WatermarkStrategy
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.sink import DiscardSink
from penstock.operators.connectors.source import NumberSequenceSource
from tests.engine.pyflink.datastream.helpers import Nothing, environment, pairs, shape, transformations


def test_a_collection_is_read_by_one_subtask() -> None:
    env = environment()
    stream = pairs(env)
    stream.print()
    row = transformations(env)[0]
    assert (row["parallelism"], row["max_parallelism"]) == (1, 1)
    with pytest.raises(ValueError, match="non-parallel"):
        stream.set_parallelism(2)
    with pytest.raises(ValueError, match="non-parallel"):
        stream.set_max_parallelism(2)


def test_sources() -> None:
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    numbers = env.from_source(NumberSequenceSource(1, 5), strategy, "numbers")
    assert numbers.get_type() == Types.LONG()
    assert numbers._transformation.watermark_strategy is strategy
    numbers.map(str)
    env.add_source(NumberSequenceSource(1, 5), type_info=Types.LONG()).map(str)
    assert [(kind, name) for kind, name, _ in shape(env)] == [
        ("source", "numbers"),
        ("one_input", "Map"),
        ("legacy_source", "Custom Source"),
        ("one_input", "Map"),
    ]
    for call in (
        lambda: env.from_source(1, strategy, "one"),  # type: ignore[arg-type]
        lambda: env.add_source(1),  # type: ignore[arg-type]
        lambda: env.create_input(1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="must be a source of Penstock"):
            call()


class FakeDataFrame(DataFrame):
    sparkSession = SimpleNamespace(  # type: ignore[assignment]
        sparkContext=SimpleNamespace(
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)),
        )
    )
    isStreaming = False
    schema = StructType([StructField("n", LongType()), StructField("at", TimestampType())])

    def __new__(cls) -> "FakeDataFrame":
        return object.__new__(cls)

    def toDF(self, *names: str) -> "FakeDataFrame":
        """Under other names."""
        return self


def test_dataframes() -> None:
    env = environment()
    stream = env.from_dataframe(FakeDataFrame())
    assert stream.get_type() == Types.ROW_NAMED(["n", "at"], [Types.LONG(), SparkTypeInfo(TimestampType())])
    declared = Types.TUPLE([Types.LONG(), Types.INSTANT()])
    assert env.from_dataframe(FakeDataFrame(), declared).get_type() == declared
    stream.map(str)
    row = transformations(env)[0]
    assert (row["kind"], row["name"]) == ("source", "DataFrame")
    assert stream._transformation.operator.reads_dataframe


def test_sources_are_registered_by_who_reads_them() -> None:
    env = environment()
    pairs(env)
    pairs(env).map(str)
    assert [kind for kind, _, _ in shape(env)] == ["legacy_source", "one_input"]


def test_side_outputs() -> None:
    env = environment()
    tag = OutputTag("late", Types.INT())
    main = pairs(env).process(Nothing())
    side = main.get_side_output(tag)
    assert side.get_type() == Types.INT()
    side.print()
    rows = transformations(env)
    assert rows[2] == {"id": 3, "kind": "one_input", "name": "Map", "inputs": [2], "tag": "late"}
    assert main.get_side_output(OutputTag("late", Types.INT())).get_type() == Types.INT()
    assert main.get_side_output(OutputTag("other")).get_type() == Types.PICKLED_BYTE_ARRAY()
    with pytest.raises(TypeError, match="must have one type, got"):
        main.get_side_output(OutputTag("late", Types.STRING()))
    with pytest.raises(TypeError, match="does not have side outputs"):
        main.rebalance().get_side_output(tag)


def test_sinks() -> None:
    env = environment(parallelism=4)
    stream = pairs(env)
    printed = stream.print("id").name("out").uid("u").set_parallelism(2).set_description("lines")
    printed.disable_chaining().slot_sharing_group("g").set_uid_hash("1" * 32)
    stream.sink_to(DiscardSink())
    stream.add_sink(DiscardSink())
    rows = transformations(env)
    assert rows[1] == {
        "id": 2,
        "kind": "sink",
        "name": "out",
        "inputs": [1],
        "parallelism": 2,
        "uid": "u",
        "uid_hash": "1" * 32,
        "slot_sharing_group": "g",
        "chaining": "NEVER",
    }
    assert [row["name"] for row in rows[2:]] == ["Sink", "Unnamed"]
    with pytest.raises(TypeError, match="must be a sink of Penstock"):
        stream.sink_to(1)  # type: ignore[arg-type]


class Transformer:
    def apply(self, stream: DataStream) -> DataStream:
        return stream.map(str)


class Preparing(DiscardSink):
    def get_transformer(self) -> Transformer:
        return Transformer()


def test_a_sink_may_prepare_its_records() -> None:
    env = environment()
    pairs(env).sink_to(Preparing())
    assert [name for _, name, _ in shape(env)] == ["Collection Source", "Map", "Sink"]


def test_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        pairs(environment()).execute_and_collect(limit=0)


def test_close_forgets_what_is_registered() -> None:
    env: StreamExecutionEnvironment = environment()
    pairs(env).print()
    env.close()
    with pytest.raises(RuntimeError):
        env.new_job()
