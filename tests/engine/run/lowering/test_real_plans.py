"""What PyFlink's own tests assert of get_execution_plan, and what `capture --verify` says of our lowering.

The facts are those of flink-python's test_stream_execution_environment.py and test_data_stream.py.
"""

import json
from pathlib import Path

import pytest

from penstock.engine.commands.capture import compare_with_captured
from penstock.engine.library.run_script import jobs_of_script, parse_change, what_if_of_script
from penstock.engine.pyflink.datastream import CoMapFunction, StreamExecutionEnvironment
from penstock.engine.run.runtime.run_context import EnvironmentSettings
from penstock.operators.common.typeinfo import Types
from penstock.plans.errors import ConfigurationError
from penstock.plans.importing.execution_plan import from_execution_plan

SCRIPT = """\
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, RuntimeExecutionMode
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
words = env.from_collection(["a b"], type_info=Types.STRING()).flat_map(str.split, Types.STRING()).cache()
words.map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()])).key_by(lambda w: w[0]).sum(1).print()
env.execute("words")
words.print()
env.execute("again")
"""


class Both(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return str(path)


def captured(script):
    """The jobs as lines, with other ids of cached data sets, as PyFlink's are random."""
    lines = []
    for job in jobs_of_script(script, [], EnvironmentSettings()).jobs:
        graph = job.lowered.submitted.stream_graph
        topology = {
            "name": job.name,
            "parallelism": job.parallelism,
            "config": job.config,
            "stream_graph": graph,
        }
        text = json.dumps(topology)
        for row in [*graph["edges"], *graph["nodes"]]:
            for key in {"persistent_data_set", "consumes_data_set"} & row.keys():
                text = text.replace(row[key], row[key][::-1])
        lines.append(text)
    return lines


def test_the_same_graphs_are_ok(script):
    lines = captured(script)
    assert '"consumes_data_set"' in lines[1]
    found = compare_with_captured(script, [], EnvironmentSettings(), lines, [])
    assert found == ({"words": [], "again": []}, None)


def test_differences_are_named(script):
    lines = captured(script)
    changed = json.loads(lines[0])
    changed["stream_graph"]["nodes"][1]["parallelism"] = 7
    found = compare_with_captured(script, [], EnvironmentSettings(), [json.dumps(changed)], [])
    graph, further = found.differences["words"]
    assert "/parallelism Flink has 7" in graph
    assert further == "PyFlink submits no further job, Penstock 'again'"
    found = compare_with_captured(script, [], EnvironmentSettings(), [*lines, lines[1]], [])
    assert found == (
        {"words": [], "again": ["Penstock has no such job: the script executes no such job"]},
        None,
    )


@pytest.mark.parametrize(
    ("rest", "not_run"),
    [
        ("import pyflink.table.descriptors", "the Table API is not part of Penstock"),
        ("from pyflink.table import StreamTableEnvironment", "`penstock capture` plans such a script"),
        ("env.add_source(SourceFunction('a.java.Class'))", "Penstock runs without Flink's JVM"),
        ("import no_such_module", "No module named 'no_such_module', in the Python that runs Penstock"),
    ],
)
def test_what_penstock_does_not_run_is_no_difference(script, rest, not_run):
    """The jobs before it are compared."""
    lines = captured(script)
    begin = "from pyflink.datastream.functions import SourceFunction\n"
    Path(script).write_text(f"{begin}{SCRIPT}{rest}\nenv.execute('third')\n")
    third = json.dumps(json.loads(lines[1]) | {"name": "third"})
    found = compare_with_captured(script, [], EnvironmentSettings(), [*lines, third], [])
    assert found.differences == {"words": [], "again": []}
    assert not_run in str(found.not_run)


@pytest.mark.parametrize(
    ("end", "said"), [("sys.exit()", None), ("sys.exit(2)", "sys.exit(2)"), ("1/0", "Zero")]
)
def test_a_script_may_end_by_sys_exit_but_not_fail(script, end, said):
    lines = captured(script)
    Path(script).write_text(f"import sys\n{SCRIPT}\n{end}")
    third = json.dumps(json.loads(lines[1]) | {"name": "third"})
    found = compare_with_captured(script, [], EnvironmentSettings(), [*lines, third], [])
    (difference,) = found.differences.pop("third")
    assert found == ({"words": [], "again": []}, None)
    assert ("failed: " + said if said else "the script executes no such job") in difference


def test_what_fusing_saves_is_counted(script):
    change = parse_change("python.operator-chaining.enabled=false")
    found = what_if_of_script(script, [], EnvironmentSettings(), None, change)
    apart = {"operators": 1, "python operators": 1, "python workers": 2, "serialisations": 2}
    assert {name: found.then[name] - found.now[name] for name in apart} == apart
    change = parse_change("Reduce:parallelism=5")
    found = what_if_of_script(script, [], EnvironmentSettings(), "words", change)
    assert found.then["python workers"] - found.now["python workers"] == 3
    for wrong in ("nonsense", "Map:parallelism=0", "parallelism.default=x"):
        with pytest.raises(ConfigurationError):
            parse_change(wrong)
    with pytest.raises(ConfigurationError, match="lacks this operator"):
        what_if_of_script(script, [], EnvironmentSettings(), None, parse_change("None:parallelism=2"))


def nodes_of(build):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    build(env)
    return json.loads(env.get_execution_plan())["nodes"]


def numbers(env):
    return env.from_collection([1, 2, 3], type_info=Types.INT())


@pytest.mark.parametrize("partition", ["broadcast", "rebalance", "rescale", "shuffle"])
def test_partitions_of_plans(partition):
    nodes = nodes_of(lambda env: getattr(numbers(env), partition)().map(str).set_parallelism(3).print())
    assert nodes[1]["predecessors"][0]["ship_strategy"] == partition.upper()
    assert nodes[1]["parallelism"] == 3


def test_parallelism_of_plans():
    built = nodes_of(lambda env: numbers(env).map(str).set_parallelism(3).set_max_parallelism(4).print())
    assert (built[0]["parallelism"], built[1]["parallelism"]) == (1, 3)
    forced = nodes_of(lambda env: numbers(env).map(str).force_non_parallel().print())
    assert forced[1]["parallelism"] == 1


def test_a_keyed_stream_in_a_plan():
    def build(env):
        stream = env.from_collection([("a", 0)], type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
        keyed = stream.name("From Collection").key_by(lambda x: x[1], key_type=Types.INT())
        plus_two = keyed.map(lambda x: x).name("Plus Two Map").set_parallelism(3)
        plus_two.map(lambda x: x).name("Add From File Map").print().name("Test Sink").set_parallelism(4)

    nodes = nodes_of(build)
    assert nodes[0]["parallelism"] == nodes[1]["parallelism"] == 1
    assert nodes[1]["type"] == "_stream_key_by_map_operator"
    assert nodes[1]["predecessors"][0]["ship_strategy"] == "FORWARD"
    assert nodes[2]["parallelism"] == 3
    assert nodes[2]["predecessors"][0]["ship_strategy"] == "HASH"
    assert nodes[4]["parallelism"] == 4


def test_an_imported_plan_knows_python_operators():
    def build(env):
        keyed = numbers(env).map(lambda x: x, Types.INT()).key_by(lambda x: x)
        keyed.connect(numbers(env).key_by(lambda x: x)).map(Both()).filter(bool).print()

    imported = from_execution_plan({"nodes": nodes_of(build)}, "p")
    assert isinstance(imported, dict)
    nodes = {node["name"]: node for node in imported["stream_graph"]["nodes"]}
    both = nodes["Co-Map, Filter, Map"]
    assert (both["invokable"], both["keyed"]) == ("TwoInputStreamTask", True)
    assert both["slot_scope"] == ["PYTHON", "STATE_BACKEND"]
    assert nodes["Map, _stream_key_by_map_operator"]["slot_scope"] == ["PYTHON"]
    assert nodes["Source: Collection Source"]["legacy_source"]
    numbers_of_edges = [
        edge["type_number"] for edge in imported["stream_graph"]["edges"] if edge["target"] == both["id"]
    ]
    assert sorted(numbers_of_edges) == [1, 2]
