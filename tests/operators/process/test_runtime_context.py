"""What functions are told of where they run, and their metrics."""

import pytest

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.common.arguments import NoJavaError
from penstock.operators.functions.functions import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    NullByteKeySelector,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    SinkFunction,
    SourceFunction,
)
from penstock.operators.functions.runtime_context import RuntimeContext, metric_values
from penstock.operators.state.interfaces import ReduceFunctionWrapper


def test_where_a_function_runs():
    context = RuntimeContext(
        OperatorContext(
            task_name="Source -> Map",
            subtask=2,
            parallelism=5,
            max_parallelism=40,
            attempt_number=1,
            job_parameters={"colour": "green"},
            cached_files={"model": "/tmp/model"},
        )
    )
    assert context.get_task_name() == "Source -> Map"
    assert context.get_task_name_with_subtasks() == "Source -> Map (3/5)#1"
    assert context.get_index_of_this_subtask() == 2
    assert context.get_number_of_parallel_subtasks() == 5
    assert context.get_max_number_of_parallel_subtasks() == 40
    assert context.get_attempt_number() == 1
    assert context.get_job_parameter("colour", "red") == "green"
    assert context.get_job_parameter("size", "large") == "large"
    assert context.get_distributed_cache().get_file("model") == "/tmp/model"
    with pytest.raises(ValueError, match=r"no file 'data', only \['model'\]"):
        context.get_distributed_cache().get_file("data")


def test_metrics():
    operator = OperatorContext()
    group = RuntimeContext(operator).get_metrics_group()
    counter = group.counter("records")
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    assert group.counter("records").get_count() == 4
    group.add_group("inner").counter("records").inc(7)
    group.add_group("kind", "big").meter("events").mark_event(3)
    assert group.add_group("kind", "big").meter("events", 10).get_count() == 3
    group.gauge("size", lambda: counter.get_count() * 10)
    group.gauge("broken", lambda: 1 // 0)
    distribution = group.distribution("lengths")
    for length in (4, 1, 7):
        distribution.update(length)
    group.distribution("nothing")
    assert metric_values(operator) == {
        "records": 4,
        "inner.records": 7,
        "kind.big.events": 3,
        "size": 40,
        "broken": None,
        "lengths": {"sum": 12, "count": 3, "min": 1, "max": 7},
        "nothing": {"sum": 0, "count": 0, "min": None, "max": None},
    }
    assert metric_values(OperatorContext()) == {}


def test_functions_without_their_method_cannot_be_made():
    class Nothing(MapFunction):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # type: ignore[abstract]


def test_on_timer_may_be_left_out():
    class One(KeyedProcessFunction):
        def process_element(self, value, ctx):
            pass

    class Two(KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            pass

        def process_element2(self, value, ctx):
            pass

    assert One().on_timer(1, None) is None  # type: ignore[arg-type]
    assert Two().on_timer(1, None) is None  # type: ignore[arg-type]


def test_small_functions():
    assert NullByteKeySelector().get_key("anything") == 0
    assert ReduceFunctionWrapper(lambda a, b: a - b).reduce(5, 2) == 3
    assert list(PassThroughWindowFunction[str, str, str]().apply("k", "w", ["a", "b"])) == ["a", "b"]
    assert list(PassThroughAllWindowFunction[str, str]().apply("w", ["a"])) == ["a"]


@pytest.mark.parametrize("kind", [SourceFunction, SinkFunction])
def test_there_is_no_java(kind):
    with pytest.raises(NoJavaError, match="Penstock runs without Flink's JVM"):
        kind("org.example.Function")
