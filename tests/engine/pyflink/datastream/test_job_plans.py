"""Plans of jobs: who is chained to whom, how records travel, and what BATCH mode changes."""

import json
from typing import Any

import pytest

from penstock.engine.pyflink.datastream import (
    CoMapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.engine.run.lowering.transformations import restart_ids
from penstock.operators.common.time import Time, WatermarkStrategy
from penstock.operators.common.typeinfo import Types
from penstock.operators.connectors.sink import DiscardSink
from penstock.operators.connectors.source import NumberSequenceSource
from penstock.operators.state.interfaces import MapStateDescriptor
from penstock.operators.windows.assigners import TumblingEventTimeWindows
from penstock.plans.errors import JobCompileError
from tests.engine.pyflink.datastream.helpers import Plan, environment, first, pairs
from tests.engine.pyflink.datastream.test_connected_streams import Both, KeyedJoined, Rules

SOURCE = "Source: Collection Source"
KEYS = "_stream_key_by_map_operator"
SINK = "Sink: Writer"


def numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")


@pytest.mark.parametrize(("mode", "partition"), [("STREAMING", "PIPELINED_BOUNDED"), ("BATCH", "BLOCKING")])
def test_what_is_of_one_parallelism_is_chained(mode: str, partition: str) -> None:
    env = environment(2, mode)
    pairs(env).map(str).filter(bool).sink_to(DiscardSink())
    plan = Plan(env)
    assert plan.parallelism == {SOURCE: 1, "Map, Filter -> Sink: Writer": 2}
    assert plan.edges == [(SOURCE, "REBALANCE", partition, "Map, Filter -> Sink: Writer")]


def test_a_parallel_source_is_chained() -> None:
    env = environment(3)
    numbers(env).map(str).sink_to(DiscardSink())
    plan = Plan(env)
    assert plan.parallelism == {"Source: numbers -> Map -> Sink: Writer": 3}
    assert plan.edges == []


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH", "AUTOMATIC"])
def test_a_keyed_count(mode: str) -> None:
    env = environment(2, mode)
    pairs(env).key_by(first).sum(1).sink_to(DiscardSink())
    plan = Plan(env)
    assert plan.parallelism == {f"{SOURCE} -> {KEYS}": 1, "Reduce -> Sink: Writer": 2}
    blocking = "PIPELINED_BOUNDED" if mode == "STREAMING" else "BLOCKING"
    assert plan.edges == [(f"{SOURCE} -> {KEYS}", "HASH", blocking, "Reduce -> Sink: Writer")]
    node = plan.nodes["Reduce"]
    assert node["slot_scope"] == ["PYTHON", "STATE_BACKEND"]
    assert dict(node["managed_memory"]) == ({} if mode == "STREAMING" else {"OPERATOR": 128})


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_two_keyed_inputs(mode: str) -> None:
    env = environment(2, mode)
    one, other = numbers(env), numbers(env)
    one.connect(other).key_by(lambda n: n, lambda n: n).process(KeyedJoined()).sink_to(DiscardSink())
    plan = Plan(env)
    node = plan.nodes["Keyed Co-Process"]
    assert node["slot_scope"] == ["PYTHON", "STATE_BACKEND"]
    assert node["chaining"] == ("ALWAYS" if mode == "STREAMING" else "HEAD")
    assert dict(node["managed_memory"]) == ({} if mode == "STREAMING" else {"OPERATOR": 128})
    assert [edge[1] for edge in plan.edges] == ["HASH", "HASH"]


def test_partitioners_and_changes_of_parallelism() -> None:
    env = environment(2)
    source = numbers(env)
    source.rebalance().map(str).name("a")
    source.rescale().map(str).name("b").set_parallelism(4)
    source.broadcast().map(str).name("c")
    source.shuffle().map(str).name("d")
    source.global_().map(str).name("e")
    source.partition_custom(lambda key, n: 0, lambda n: n).map(str).name("f")
    source.map(str).name("g").set_parallelism(3)
    source.forward().map(str).name("h")
    plan = Plan(env)
    head = "Source: numbers -> (_partition_custom_map_operator, h)"
    custom = "_keyed_stream_values_operator, f"
    assert [(edge[1], edge[3]) for edge in plan.edges] == sorted(
        [
            ("REBALANCE", "a"),
            ("RESCALE", "b"),
            ("BROADCAST", "c"),
            ("SHUFFLE", "d"),
            ("GLOBAL", "e"),
            ("CUSTOM", "_keyed_stream_values_operator, f"),
            ("REBALANCE", "g"),
        ]
    )
    assert plan.parallelism == {head: 2, "a": 2, "b": 4, "c": 2, "d": 2, "e": 2, custom: 2, "g": 3}


def test_forward_needs_the_same_parallelism() -> None:
    env = environment(2)
    numbers(env).forward().map(str).set_parallelism(3)
    with pytest.raises(JobCompileError, match="Forward partitioning does not allow change of parallelism"):
        env.get_job_graph()


def test_chaining_calls() -> None:
    env = environment(2)
    stream = numbers(env).map(str).name("a").map(str).name("b").start_new_chain().map(str).name("c")
    stream.map(str).name("d").disable_chaining().map(str).name("e").sink_to(DiscardSink()).disable_chaining()
    plan = Plan(env)
    assert set(plan.parallelism) == {"Source: numbers -> a", "b, c", "d", "e", SINK}
    assert {edge[1] for edge in plan.edges} == {"FORWARD"}


def test_chaining_switched_off() -> None:
    env = environment(2).disable_operator_chaining()
    numbers(env).map(str).filter(bool)
    assert set(Plan(env).parallelism) == {"Source: numbers", "Map, Filter"}  # PyFlink fuses all the same


def test_slot_sharing_groups() -> None:
    env = environment(2)
    numbers(env).map(str).name("a").slot_sharing_group("big").map(str).name("b")
    plan = Plan(env)
    assert set(plan.groups) == {"Source: numbers", "a -> b"}
    assert plan.nodes["b"]["slot_sharing_group"] == "big"
    assert len(set(plan.groups.values())) == 2


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_union(mode: str) -> None:
    env = environment(2, mode)
    a, b = numbers(env).map(str).name("a"), numbers(env).map(str).name("b")
    a.union(b, a.filter(bool)).map(str).name("all").sink_to(DiscardSink())
    plan = Plan(env)
    assert plan.parallelism["all -> Sink: Writer"] == 2
    assert sum(edge[3] == "all -> Sink: Writer" for edge in plan.edges) == 3


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return ()


def test_side_outputs() -> None:
    env = environment(2)
    tag = OutputTag("big", Types.LONG())
    main = numbers(env).process(Split(), Types.LONG())
    main.get_side_output(tag).map(str).name("side")
    main.map(str).name("main")
    assert set(Plan(env).parallelism) == {"Source: numbers -> PROCESS -> (Map, side, main)"}


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_broadcast_state(mode: str) -> None:
    env = environment(2, mode)
    rules = pairs(env).broadcast(MapStateDescriptor("rules", Types.STRING(), Types.INT()))
    pairs(env).connect(rules).process(Rules(), Types.INT()).sink_to(DiscardSink())
    plan = Plan(env)
    assert [edge[1] for edge in plan.edges] == ["BROADCAST", "REBALANCE"]


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_windows(mode: str) -> None:
    env = environment(2, mode)
    stamped = numbers(env).assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps())
    windows: Any = TumblingEventTimeWindows.of(Time.seconds(5))
    stamped.key_by(lambda n: n % 3).window(windows).reduce(lambda a, b: a + b).sink_to(DiscardSink())
    stamped.window_all(windows).reduce(lambda a, b: a + b).name("all").sink_to(DiscardSink())
    plan = Plan(env)
    head = f"Source: numbers -> Timestamps/Watermarks -> ({KEYS}, {KEYS})"
    assert plan.parallelism == {
        head: 2,
        "TumblingEventTimeWindows -> Sink: Writer": 2,
        "all -> Sink: Writer": 2,
    }


def test_maximum_parallelism() -> None:
    env = environment(2)
    env.set_max_parallelism(16)
    numbers(env).map(str).name("a").rebalance().map(str).name("b").set_max_parallelism(8)
    plan = Plan(env)
    assert plan.max_parallelism == {"Source: numbers -> a": 16, "b": 8}


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_parallelism_is_what_was_asked_for(mode: str) -> None:
    env = environment(2, mode)
    stream = pairs(env).map(str).set_parallelism(4).filter(bool).set_parallelism(1)
    stream.map(str).name("last").set_parallelism(3).set_max_parallelism(12).sink_to(DiscardSink())
    plan = Plan(env)
    assert plan.parallelism == {SOURCE: 1, "Map": 4, "Filter": 1, "last": 3, SINK: 2}
    assert plan.max_parallelism["last"] == 12


def test_keyed_streams_are_read_by_what_has_no_keys() -> None:
    env = environment(2)
    keyed = pairs(env).key_by(first)
    keyed.print()
    keyed.union(pairs(env)).map(str)
    plan = Plan(env)
    values = "_keyed_stream_values_operator"
    keys = f"{SOURCE} -> {KEYS}"
    assert (keys, "HASH", "PIPELINED_BOUNDED", f"{values} -> Sink: Print to Std. Out") in plan.edges
    assert sum(edge[1] == "HASH" for edge in plan.edges) == 2


def test_graphs_as_json() -> None:
    restart_ids()
    env = environment(2)
    pairs(env).map(str).uid("u").sink_to(DiscardSink())
    graph = env.get_stream_graph()
    assert [node["name"] for node in graph["nodes"]] == [SOURCE, "Map", SINK]
    assert [(edge["source"], edge["target"], edge["partitioner"]) for edge in graph["edges"]] == [
        (1, 2, "REBALANCE"),
        (2, 4, "FORWARD"),  # the sink, number 3, becomes a writer
    ]
    job = env.get_job_graph()
    assert sorted(vertex["name"] for vertex in job["vertices"]) == ["Map -> Sink: Writer", SOURCE]
    assert len(job["topological_order"]) == 2


def test_the_execution_plan_is_flinks_json() -> None:
    restart_ids()
    env = environment(2)
    stream = pairs(env)
    stream.map(str, Types.STRING()).set_description("to text").print()
    stream.key_by(first).reduce(lambda a, b: a)
    stream.connect(stream).map(Both())
    assert json.loads(env.get_execution_plan()) == {
        "nodes": [
            node(1, SOURCE, "Data Source", 1),
            node(2, "Map", "Operator", 2, (1, "REBALANCE"), contents="to text"),
            node(4, KEYS, "Operator", 1, (1, "FORWARD")),
            node(6, "Reduce", "Operator", 2, (4, "HASH")),
            node(7, "Co-Map", "Operator", 2, (1, "REBALANCE"), (1, "REBALANCE")),
            node(3, "Sink: Print to Std. Out", "Data Sink", 2, (2, "FORWARD")),
        ]
    }
    assert env.get_execution_plan() == env.get_execution_plan()


def test_predecessors_are_in_the_order_of_the_inputs() -> None:
    restart_ids()
    env = environment(2)
    one, two = pairs(env), pairs(env)
    two.union(one).map(str)
    read = json.loads(env.get_execution_plan())["nodes"][-1]["predecessors"]
    assert [edge["id"] for edge in read] == [2, 1]


def node(number: int, kind: str, pact: str, parallelism: int, *inputs: Any, contents: str = "") -> Any:
    row: dict[str, Any] = {
        "id": number,
        "type": kind,
        "pact": pact,
        "contents": contents or kind,
        "parallelism": parallelism,
    }
    if pact != "Data Source":
        row["predecessors"] = [
            {"id": source, "ship_strategy": strategy, "side": "second"} for source, strategy in inputs
        ]
    return row


def test_plain_co_functions_are_not_keyed() -> None:
    env = environment(2)
    assert issubclass(Both, CoMapFunction)
    numbers(env).connect(numbers(env)).map(Both())
    assert Plan(env).nodes["Co-Map"]["slot_scope"] == ["PYTHON"]
