"""Flink's own JSON, plan JSON and stores as inputs of `plan`: what they hold comes back."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.importing.given_graph import ASSUMED_KEY, FORM_KEY, IGNORED_KEY
from penstock.plans.importing.stream_graph_form import (
    children_in_order,
    from_flink_plan,
    known_of_python,
    memory_weights,
    stream_edge,
)
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_plan_lines import (
    to_execution_plan_lines,
    to_flink_plan_lines,
    to_plan_lines,
)
from penstock.plans.plan_json.to_topology_lines import to_topology_lines
from penstock.plans.vocabulary import Layer

TESTS = Path(__file__).parents[2]


def lines_of(path):
    with gzip.open(TESTS / path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tables_of(topologies, until=Layer.JOB_GRAPH):
    given = [one if isinstance(one, dict) else one.encode() for one in topologies]
    planned = plan_in_process(given, PlanOptions(until))
    return {name: from_arrow(table) for name, table in planned.tables.items()}


@pytest.fixture(scope="module")
def golden():
    some = lines_of("plans/plan_json/views.jsonl.gz")[::2] + lines_of("golden/settings.jsonl.gz")[::40]
    topologies = [line["topology"] for line in some]
    for number, topology in enumerate(topologies):
        topology["name"] += f" ({number})"
    return topologies


@pytest.fixture(scope="module")
def tables(golden):
    return tables_of(golden)


def planned_lines(lines):
    return {name: line for name, line in lines.iter_rows() if '"error"' not in line[: len(name) + 60]}


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def without_ids(plan):
    """Vertices by their places: an id follows from what Flink knows of operators, which the JSON does not."""
    nodes = plan["flink_plan"]["nodes"]
    places = {node["id"]: place for place, node in enumerate(nodes)}
    for node in nodes:
        node["id"] = places[node["id"]]
        for read in node.get("inputs", ()):
            read["id"] = places[read["id"]]
    return plan


def test_edges_that_checkpoints_may_overtake_are_those_of_flinks_partitioners():
    unaligned = {
        partitioner: stream_edge(1, 2, partitioner)["unaligned_checkpoints"]
        for partitioner in ("HASH", "HASH[a]", "REBALANCE", "FORWARD", "RESCALE", "BROADCAST", "mine")
    }
    assert [partitioner for partitioner in unaligned if unaligned[partitioner]] == [
        "HASH",
        "HASH[a]",
        "REBALANCE",
    ]


def test_sinks_of_pyflink_run_no_python():
    assert known_of_python("Sink: out", "sink", keyed=False) == {"slot_scope": [], "keyed": False}


def test_execution_plans_come_back_to_the_byte(tables):
    given = planned_lines(to_execution_plan_lines(tables))
    again = dict(to_execution_plan_lines(tables_of(given.values())).iter_rows())
    assert len(given) > 100
    assert again == given


def test_plans_of_jobs_come_back_but_for_the_ids_of_vertices(tables):
    given = planned_lines(to_flink_plan_lines(tables))
    again = dict(to_flink_plan_lines(tables_of(given.values())).iter_rows())
    assert again.keys() == given.keys()
    for name, line in given.items():
        # Which vertices share a hybrid data set is not in the JSON, and decides its type.
        if '"hybrid_selective"' not in line:
            assert without_ids(json.loads(again[name])) == without_ids(json.loads(line))


def test_the_ids_of_vertices_are_kept_as_uid_hashes(tables):
    given = planned_lines(to_flink_plan_lines(tables))
    name, line = next(iter(given.items()))
    topology = json.loads(to_topology_lines(tables_of([line]))["line"][0])
    nodes = topology["stream_graph"]["nodes"]
    assert [node["uid_hash"] for node in nodes] == [
        node["id"] for node in json.loads(line)["flink_plan"]["nodes"]
    ]
    assert topology["name"] == name


def test_topologies_come_back_with_their_fingerprints_and_plans(tables):
    lines = to_topology_lines(tables)
    again = tables_of(lines["line"])
    assert sorted(lines["name"]) == sorted(tables["topologies"]["name"])
    assert (
        again["topologies"]
        .sort("name")
        .drop("source_line", "source_file")
        .equals(tables["topologies"].sort("name").drop("source_line", "source_file"))
    )
    assert dict(to_plan_lines(again).iter_rows()) == planned_lines(to_plan_lines(tables))


def test_stream_graphs_come_back_with_their_plans():
    tables = tables_of([line["topology"] for line in lines_of("golden/nexmark.jsonl.gz")[::12]])
    again = tables_of(to_topology_lines(tables)["line"])
    assert len(again["topologies"]) == len(tables["topologies"]) > 5
    assert dict(to_plan_lines(again).iter_rows()) == dict(to_plan_lines(tables).iter_rows())


def test_plan_json_gives_the_stream_graph_it_holds(tables):
    given = planned_lines(to_plan_lines(tables))
    again = tables_of(line for line in given.values() if '"nodes":[]' not in line)
    written = dict(to_plan_lines(again).iter_rows())
    same = 0
    for name, line in written.items():
        before, after = json.loads(given[name]), json.loads(line)
        assert "error" not in after or "buffer timeout" in after["message"], (name, line)
        same += after.get("job_graph") == before["job_graph"]
    # The others have unions, whose order it does not hold, or keys that two partitions share.
    assert same > 0.7 * len(written)


def test_an_operator_kept_apart_says_nothing_of_others_that_are_chained():
    """It yields after a legacy source; that its max parallelism differs is not why it is kept apart."""
    kinds = [("legacy_source", None), ("sink", 64), ("one_input", None), ("async", 64)]
    rows: list[dict[str, Any]] = [
        {
            "id": number,
            "name": f"n{number}",
            "kind": kind,
            "inputs": [1] if number > 1 else [],
            "max_parallelism": most,
        }
        for number, (kind, most) in enumerate(kinds, 1)
    ]
    given = {"name": "t", "transformations": [{key: one for key, one in row.items() if one} for row in rows]}
    (before,) = to_plan_lines(tables_of([json.dumps(given)]))["line"]
    (after,) = to_plan_lines(tables_of([before]))["line"]
    assert json.loads(after)["job_graph"] == json.loads(before)["job_graph"]


def test_plan_json_without_a_stream_graph_gives_its_vertices():
    given = [line["topology"] for line in lines_of("golden/nexmark.jsonl.gz")[::16]]
    before = {name: json.loads(line) for name, line in to_plan_lines(tables_of(given)).iter_rows()}
    again = to_plan_lines(tables_of(json.dumps(one) for one in before.values()))
    for name, line in again.iter_rows():
        vertices, found = before[name]["job_graph"]["vertices"], json.loads(line)["job_graph"]["vertices"]
        for key in ("name", "parallelism", "max_parallelism", "invokable", "slot_sharing_group"):
            assert [vertex[key] for vertex in found] == [vertex[key] for vertex in vertices], (name, key)
        for one, other in zip(vertices, found, strict=True):
            strategies = [[read["ship_strategy"] for read in vertex["inputs"]] for vertex in (one, other)]
            assert strategies[0] == strategies[1]


def test_what_was_assumed_is_in_the_topology_and_said_once_per_file(tables, tmp_path):
    lines = list(planned_lines(to_flink_plan_lines(tables)).values())[:5]
    jobs = [{"plan": {"jid": "0" * 32, **json.loads(line)["flink_plan"]}} for line in lines]
    jobs[0]["plan"]["nodes"][0]["inputs"][0]["caching"] = "yes"
    one, many, store = tmp_path / "web-ui.json", tmp_path / "many.jsonl", tmp_path / "store"
    one.write_text(json.dumps(jobs[0], indent=2))
    many.write_text("".join(json.dumps(job) + "\n" for job in jobs[1:]))
    code, _, said = run("plan", one, many, "--out", store, "--until", "job_graph")
    assert code == 0
    assert f"{one}: 1 topology imported from flink-plan" in said
    assert f"{many}: 4 topologies imported from flink-plan" in said
    assert said.count("assumed: operators of a vertex = one, not chained") == 2
    assert said.count("ignored: inputs.caching") == 1
    assert max(map(len, said.splitlines())) <= max(80, len(str(many)) + 50)
    assert run("export", store, "--format", "topologies", "--to", tmp_path / "out.jsonl")[0] == 0
    first = next(
        topology
        for topology in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
        if topology["name"] == jobs[0]["plan"]["name"]
    )
    assert first["config"][FORM_KEY] == "flink-plan"
    assert "max_parallelism = not set" in first["config"][ASSUMED_KEY]
    assert first["config"][IGNORED_KEY] == "inputs.caching"


def test_an_execution_plan_without_a_name_has_that_of_its_file(tables, tmp_path):
    line = json.loads(next(iter(planned_lines(to_execution_plan_lines(tables)).values())))
    file, store = tmp_path / "car speed.plan.json", tmp_path / "store"
    file.write_text(json.dumps(line["execution_plan"], indent=1) * 2)
    assert run("plan", file, "--out", store, "--until", "stream_graph")[0] == 0
    names = [json.loads(one)["name"] for one in run("export", store)[1].splitlines()]
    assert names == ["car speed.plan", "car speed.plan-2"]


@pytest.mark.slow
def test_a_store_is_planned_again_as_it_was(golden, tmp_path):
    given, store, other = tmp_path / "in.jsonl", tmp_path / "store", tmp_path / "other"
    broken = {"name": "broken", "transformations": []}
    given.write_text("".join(json.dumps(one) + "\n" for one in [*golden[:30], broken]))
    assert run("plan", given, "--out", store)[0] == 0
    code, said, beside = run("plan", store, "--out", other)
    assert (code, " 0 rejected" in said) == (0, True)
    left = sum('"error"' in line for line in run("export", store)[1].splitlines())
    assert f"{store}: {left} rejected topologies are left out" in beside
    kept = [line for line in run("export", store)[1].splitlines() if '"error_stage"' not in line]
    assert run("export", other)[1].splitlines() == kept


def test_a_store_without_planned_topologies_is_no_input(tmp_path):
    given, store = tmp_path / "in.jsonl", tmp_path / "store"
    given.write_text('{"name": "n", "transformations": []}')
    assert run("plan", given, "--out", store)[0] == 7
    code, _, said = run("plan", store, "--out", tmp_path / "other")
    assert (code, "has no planned topologies" in said) == (3, True)


def test_what_flink_refuses_for_its_execution_graph_has_views_until_the_job_graph(tmp_path):
    refused = [
        line["topology"]
        for line in lines_of("golden/edge_cases.jsonl.gz")
        if line["expected"].get("error_stage") == "execution_graph"
    ]
    assert refused
    given, store = tmp_path / "in.jsonl", tmp_path / "store"
    given.write_text("".join(json.dumps(one) + "\n" for one in refused))
    assert run("plan", given, "--out", store, "--until", "job_graph")[0] == 0
    for view, key in (("flink-plan", "flink_plan"), ("execution-plan", "execution_plan")):
        written = [json.loads(line) for line in run("export", store, "--format", view)[1].splitlines()]
        assert len(written) == len(refused)
        assert all(line[key]["nodes"] for line in written)


NODE = {"id": 1, "type": "Source: s", "pact": "Data Source", "contents": "s", "parallelism": 1}
VERTEX = {"id": "0" * 32, "parallelism": 1, "description": "Source: s<br/>", "inputs": []}
WRONG = [
    ({"nodes": [{**NODE, "parallelism": "2"}]}, "WrongType", "write it without quotes"),
    ({"nodes": [{**NODE, "parallelism": 0}]}, "OutOfRange", "parallelism 0"),
    ({"nodes": [{**NODE, "pact": "Data sink"}]}, "UnknownValue", "did you mean Data Sink"),
    ({"nodes": [NODE, NODE]}, "DuplicateId", "2 nodes with this id"),
    ({"nodes": [NODE, 7]}, "WrongType", "node at position 2"),
    ({"nodes": [{**NODE, "predecessors": [{"id": 1}]}]}, "MissingKey", "no ship_strategy"),
    (
        {
            "nodes": [
                NODE,
                {**NODE, "id": 2, "pact": "Operator", "predecessors": [{"id": 9, "ship_strategy": "HASH"}]},
            ]
        },
        "DanglingEdge",
        "predecessor 9",
    ),
    (
        {"nodes": [{**NODE, "pact": "Operator", "predecessors": [{"id": 1, "ship_strategy": "HASH"}]}]},
        "Cycle",
        "1 reads 1",
    ),
    ({"nodes": [{**VERTEX, "id": "x"}]}, "OutOfRange", "32 hex digits"),
    ({"jid": "0", "nodes": [{"id": "0" * 32}]}, "MissingKey", "no parallelism"),
    ({"nodes": [{**VERTEX, "inputs": [{"id": "1" * 32}]}]}, "MissingKey", "no exchange"),
    ({"flink_plan": {"nodes": [VERTEX], "type": "BATHC"}}, "UnknownValue", "did you mean BATCH"),
    ({"name": "n", "job_graph": {}}, "WrongType", "vertices"),
    ({"name": "n", "job_graph": 3}, "WrongType", "job_graph"),
    ({"job_graph": {"vertices": []}}, "MissingKey", "no name"),
    ({"name": "n", "slots": []}, "MissingKey", "neither stream_graph nor job_graph"),
    ({"name": "n", "stream_graph": {"nodes": [], "edges": []}}, "EmptyTopology", "no nodes"),
    ({"name": "n", "error": "E", "message": "m"}, "MissingKey", "a refusal instead of a topology: E: m"),
]


@pytest.mark.parametrize(("document", "error", "says"), WRONG)
def test_what_is_wrong_with_a_document_is_said(document, error, says):
    (row,) = plan_in_process([document], PlanOptions(Layer.STREAM_GRAPH)).tables["rejected"].to_pylist()
    assert (row["error"], says in row["message"]) == (error, True), row


def test_the_order_of_creation_is_walked_again():
    created = [4, 5, 3, 7, 2, 1]
    targets = {1: [2, 3], 2: [3, 7, 3], 3: [4, 5], 4: [], 5: [], 7: [5]}
    orders = children_in_order(created, targets)
    left: list[int] = []

    def walk(vertex):
        for at in orders[vertex]:
            if targets[vertex][at] not in left:
                walk(targets[vertex][at])
        left.append(vertex)

    walk(1)
    assert left == created


@pytest.mark.parametrize("weights", [[1], [3, 1], [128, 128, 7], [999_983, 1]])
def test_weights_are_found_in_fractions(weights):
    total = sum(weights)
    fractions = [int(weight * 10**16 // total) / 10**16 for weight in weights]
    operators = [
        {"node": node, "managed_memory_fraction": {"OPERATOR": fraction}}
        for node, fraction in enumerate(fractions)
    ]
    found = memory_weights([{"slot_sharing_group": 0, "operators": operators}])
    whole = sum(found.values())
    assert [found[node] * total for node in range(len(weights))] == [weight * whole for weight in weights]


def test_vertices_of_a_pyflink_job_say_what_runs_python_and_holds_state():
    source, keys, both = (f"{number:032x}" for number in (1, 2, 3))
    read = {"exchange": "pipelined_bounded", "ship_strategy": "HASH"}
    document = {
        "jid": "0" * 32,
        "name": "job",
        "nodes": [
            {
                "id": both,
                "parallelism": 2,
                "description": "Keyed Co-Process, Map<br/>+- Sink: Print to Std. Out<br/>",
                "inputs": [{"id": source, "num": 0, **read}, {"id": keys, "num": 1, **read}],
            },
            {"id": source, "parallelism": 1, "description": "Source: Collection Source<br/>"},
            {
                "id": keys,
                "parallelism": 1,
                "description": "Source: Collection Source<br/>+- Map, _stream_key_by_map_operator<br/>",
            },
        ],
    }
    imported = from_flink_plan(document, "job")
    assert isinstance(imported, dict)
    nodes = {node["uid_hash"]: node for node in imported["stream_graph"]["nodes"]}
    told = {key: (node["slot_scope"], node["keyed"], node["invokable"]) for key, node in nodes.items()}
    assert told == {
        both: (["PYTHON", "STATE_BACKEND"], True, "TwoInputStreamTask"),
        source: ([], False, "SourceOperatorStreamTask"),
        keys: (["PYTHON"], False, "SourceOperatorStreamTask"),
    }
    edges = imported["stream_graph"]["edges"]
    assert sorted(edge["type_number"] for edge in edges if edge["target"] == nodes[both]["id"]) == [1, 2]
