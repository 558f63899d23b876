"""Flink's own plans against golden data (the extra flink and javac have to be there); what its JVM says."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.flink import plan_with_flink as planner_module
from penstock.engine.flink.plan_with_flink import (
    FlinkPlannerError,
    PlannerFiles,
    plan_with_flink,
    planner_command,
)
from penstock.engine.spark.find_java import Java
from penstock.plans.errors import ConfigurationError, LostTopologiesError
from penstock.plans.vocabulary import Layer
from tests.engine.flink.programs import script
from tests.planned_lines import LAYERS, PlanJson, differs

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.jsonl.gz"))


def chain(operators: int, **settings: Any) -> str:
    maps = [
        {"id": i, "kind": "one_input", "name": f"Map {i}", "inputs": [i - 1]} for i in range(2, operators + 1)
    ]
    source = {"id": 1, "kind": "source", "name": "Source"}
    return json.dumps({"name": f"chain-{operators}", "transformations": [source, *maps], **settings})


# With Flink


@pytest.mark.flink
def test_plans_are_the_golden_ones():
    golden: list[PlanJson] = []
    for path in GOLDEN:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            golden += [json.loads(line) for line in file]
    golden = [line for line in golden if "transformations" in line["topology"]]
    planned = plan_with_flink(json.dumps(line["topology"]) for line in golden)
    assert planned.topologies == len(golden) > 500
    assert planned.refused > 70
    both = list(zip(planned.plans, (line["expected"] for line in golden), strict=True))
    assert [expected["name"] for plan, expected in both if differs(plan, expected)] == []
    for plan, _ in both:
        layers = {"error_stage", "error", "message"} if "error" in plan else set(LAYERS)
        assert set(plan) == {"name", *layers}
    assert list(planned.seconds) == ["read", *LAYERS, "write"]
    assert min(planned.seconds.values()) > 0
    assert planned.peak_bytes is None or planned.peak_bytes > 2**26


@pytest.mark.flink
def test_a_stack_that_is_too_small_ends_one_topology():
    deep, next_one = plan_with_flink([chain(3000), chain(4)], stack="384k").plans
    assert (deep["error_stage"], deep["error"]) == ("job_graph", "StackOverflowError")
    assert "-Xss" in deep["message"]
    assert "slots" in next_one


@pytest.mark.flink
def test_a_heap_that_is_too_small_ends_one_topology():
    tasks = chain(10, parallelism=30_000, chaining=False)
    wide, next_one = plan_with_flink([tasks, chain(4)], heap="96m").plans
    assert (wide["error_stage"], wide["error"]) == ("execution_graph", "OutOfMemoryError")
    assert "Java heap space" in wide["message"] or "GC overhead" in wide["message"]
    assert "slots" in next_one


@pytest.mark.flink
def test_a_larger_stack_plans_the_deep_chain():
    (plan,) = plan_with_flink([chain(3000)], Layer.JOB_GRAPH, stack="64m").plans
    assert len(plan["job_graph"]["vertices"][0]["operators"]) == 3000
    assert "execution_graph" not in plan


@pytest.mark.flink
@pytest.mark.parametrize("until", ["stream_graph", "execution_graph"])
def test_nothing_is_planned_behind_the_layer_asked_for(until):
    planned = plan_with_flink([chain(2)], Layer(until))
    upto = LAYERS[: LAYERS.index(until) + 1]
    assert set(planned.plans[0]) == {"name", *upto}
    assert list(planned.seconds) == ["read", *upto, "write"]


@pytest.mark.flink
def test_times_only_keeps_refusals_and_repeats_are_counted():
    lines = [chain(2), chain(2, config={"execution.runtime-mode": "BITCH"}).replace("chain-2", "wrong")]
    planned = plan_with_flink(lines, times_only=True, repeat=2)
    assert [(plan["name"], plan["error_stage"]) for plan in planned.plans] == [("wrong", "stream_graph")]
    assert (planned.topologies, planned.refused, len(planned.runs)) == (2, 1, 2)
    assert planned.seconds == planned.runs[-1]


@pytest.mark.flink
def test_lines_that_flink_is_not_asked_about():
    wrong = {
        '{"name": "n", "stream_graph": {}}': ("unsupported", "stream_graph"),
        '{"name": "n", "transformations": [], "color": 1}': ("unsupported", "topology: key color"),
        '{"name": "n"}': ("input", "transformations: a list is required"),
        '{"name": "n", "transformations"': ("input", "not JSON"),
        "[]": ("input", "not a JSON object"),
    }
    plans = plan_with_flink(wrong, Layer.STREAM_GRAPH).plans
    for plan, (stage, message) in zip(plans, wrong.values(), strict=True):
        assert (plan["error_stage"], plan["error"]) == (stage, "UnplannableTopologyException")
        assert message in plan["message"]


@pytest.mark.flink
def test_transformations_that_flink_is_not_asked_about():
    select = {"kind": "select", "inputs": [1], "names": ["a"]}
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "select": (select, "transformation 2: Flink has had no select since 1.12"),
        "kind": ({"kind": "cogroup", "inputs": [1]}, "transformation 2: unknown kind 'cogroup'"),
        "key": ({"kind": "union", "inputs": [1], "uid": "u"}, "transformation 2: key uid"),
        "input": ({"kind": "sink", "inputs": [2]}, "transformation 2: input 2 is no earlier transformation"),
        "count": ({"kind": "two_input", "inputs": [1]}, "transformation 2: 1 inputs on kind two_input"),
        "id": ({"id": 7, "kind": "source"}, "transformation 2: has id 7, ids are 1..n in creation order"),
    }
    source = {"id": 1, "kind": "source", "name": "s"}
    lines = [
        json.dumps({"name": name, "transformations": [source, {"id": 2, **second}]})
        for name, (second, _) in wrong.items()
    ]
    plans = plan_with_flink(lines).plans
    assert {plan["name"]: plan["message"] for plan in plans} == {
        name: message for name, (_, message) in wrong.items()
    }


@pytest.mark.flink
def test_a_stack_that_java_cannot_have_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="does not start with the requested memory"):
        plan_with_flink([chain(2)], stack="1k")


# The JVM


def test_command_line(tmp_path):
    files = PlannerFiles(*(tmp_path / name for name in "tpsl"))
    command = planner_command(
        Java("/jdk/bin/java", "17", 17),
        ["-Xmx2g", "-Xss64m"],
        [Path("/c"), Path("/l/*")],
        files,
        ["--until", "slots"],
    )
    assert command[:3] == ["/jdk/bin/java", "-Xmx2g", "-Xss64m"]
    assert command[command.index("-cp") + 1 :] == [
        f"/c{os.pathsep}/l/*",
        "penstock.flink.PlanTopologies",
        f"{tmp_path}/t",
        f"{tmp_path}/p",
        f"{tmp_path}/s",
        "--until",
        "slots",
    ]


@pytest.fixture
def java(monkeypatch, tmp_path):
    """Sets what stands for the JVM; its arguments end in the three files and the options."""

    def set_java(text: str) -> None:
        path = script(tmp_path / "java", text)
        monkeypatch.setattr(planner_module, "require_java", lambda: Java(path, "17.0.1", 17))
        monkeypatch.setattr(planner_module, "flink_jars", lambda: tmp_path)
        monkeypatch.setattr(planner_module, "compiled_planner", lambda jars, java: tmp_path)

    return set_java


ANSWER = """
at = sys.argv.index("penstock.flink.PlanTopologies")
topologies, plans, times = map(pathlib.Path, sys.argv[at + 1 : at + 4])
count = len(topologies.read_text().splitlines())
plans.write_text('{"name": "n"}\\n' * count)
spent = '{"read": 1, "stream_graph": 1500000000, "job_graph": 3, "execution_graph": 0, "write": 5}'
line = '{"topologies": %d, "refused": 0, "nanoseconds": %s}\\n'
times.write_text(line % (count, spent.replace("1500", "9500")) + line % (count, spent))
"""


def test_times_are_seconds_of_the_layers_asked_for(java):
    java(ANSWER)
    planned = plan_with_flink(["{\n}\r\n", "", " \n", "{}"], Layer.JOB_GRAPH, repeat=2)
    assert planned.plans == [{"name": "n"}] * 2
    assert planned.seconds == {"read": 1e-9, "stream_graph": 1.5, "job_graph": 3e-9, "write": 5e-9}
    assert [run["stream_graph"] for run in planned.runs] == [9.5, 1.5]
    assert planned.peak_bytes is None


def test_options_reach_java(java, tmp_path):
    java(ANSWER + f"pathlib.Path({str(tmp_path / 'said')!r}).write_text(' '.join(sys.argv[1:]))")
    with pytest.raises(LostTopologiesError):  # this JVM writes plans whatever it is asked
        plan_with_flink(["{}"], Layer.JOB_GRAPH, heap="1g", stack="8m", times_only=True, repeat=3)
    said = (tmp_path / "said").read_text()
    assert said.startswith("-Xmx1g -Xss8m ")
    assert said.endswith(" --until job_graph --times-only --repeat 3")


def test_plans_that_are_lost(java):
    java(ANSWER + "plans.write_text('')")
    with pytest.raises(LostTopologiesError, match=r"1 topologies went to Flink, .* 0 of 1 came back"):
        plan_with_flink(["{}"])


TRACE = """
print('Exception in thread "main" java.lang.NoClassDefFoundError: org/apache/flink/Missing')
print('\\tat PlanTopologies.main(PlanTopologies.java:50)')
print('Caused by: java.lang.ClassNotFoundException: Missing')
print('\\t... 12 more', flush=True)
"""


def test_a_jvm_that_fails_is_told_without_its_stack_trace(java):
    java(TRACE + "sys.exit(1)")
    with pytest.raises(FlinkPlannerError, match="exit code 1") as e:
        plan_with_flink(["{}"])
    assert e.value.log_tail.splitlines() == [
        'Exception in thread "main" java.lang.NoClassDefFoundError: org/apache/flink/Missing',
        "Caused by: java.lang.ClassNotFoundException: Missing",
    ]
    assert "\tat " not in str(e.value)
    assert "NoClassDefFoundError" in str(e.value)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("os.kill(os.getpid(), 9)", FlinkPlannerError, "ended from outside: Killed"),
        ("sys.exit('java.lang.OutOfMemoryError: Java heap space')", FlinkPlannerError, "more heap"),
        ("sys.exit('IllegalStateException: … StackOverflowError')", FlinkPlannerError, "more stack"),
        ("sys.exit('Could not reserve enough space for object heap')", ConfigurationError, "another heap"),
    ],
)
def test_other_ends_of_the_jvm(java, text, error, message):
    java(text)
    with pytest.raises(error, match=message):
        plan_with_flink(["{}"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heap": "4 gigs"}, "heap must be a size .*, got '4 gigs'"),
        ({"heap": "-4g"}, "heap must be a size .*, got '-4g'"),
        ({"stack": "0"}, "stack must be a size .*, got '0'"),
        ({"until": Layer.TOPOLOGY}, "no layer topology"),
        ({"repeat": 0}, "repeat must be 1 or more, got 0"),
    ],
)
def test_options_that_are_wrong(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        plan_with_flink([], **arguments)
