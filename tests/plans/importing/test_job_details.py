"""A job as Flink gives it at /jobs/:id: what it says of vertices is planned, or said to be left."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.plans.importing.given_graph import ASSUMED_KEY, IGNORED_KEY
from tests.plans.importing.imports import imported

SOURCE, MAP, SINK = ("bc764cd8ddf7a0cff126f51c1623965" + last for last in "89a")
GROUPS = {name: f"{number:032x}" for number, name in enumerate("ab", 1)}


def details(job_type: str = "STREAMING", **of_vertices: Any) -> dict[str, Any]:
    """Three vertices, of which the last two are in groups that `of_vertices` may change."""
    vertices = [
        {
            "id": vertex,
            "slotSharingGroupId": GROUPS[group],
            "name": name,
            "maxParallelism": 256,
            "parallelism": parallelism,
            "status": "RUNNING",
            "start-time": 1,
            "metrics": {"read-bytes": 0},
            **of_vertices,
        }
        for vertex, name, parallelism, group in (
            (SOURCE, "Source: cars", 1, "a"),
            (MAP, "Map -> Filter", 2, "b"),
            (SINK, "Sink: out", 2, "b"),
        )
    ]

    def node(vertex: str, parallelism: int, description: str, reads: str | None) -> dict[str, Any]:
        edge = {"num": 0, "id": reads, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
        return {
            "id": vertex,
            "parallelism": parallelism,
            "description": description,
            **({} if reads is None else {"inputs": [edge]}),
        }

    nodes = [
        node(SOURCE, 1, "Source: cars<br/>", None),
        node(MAP, 2, "Map<br/>+- Filter<br/>", SOURCE),
        node(SINK, 2, "Sink: out<br/>", MAP),
    ]
    return {
        "jid": "ea632d67b7d595e5b851708ae9ad79d6",
        "name": "top-speed",
        "isStoppable": False,
        "state": "RUNNING",
        "job-type": job_type,
        "maxParallelism": -1,
        "vertices": vertices,
        "status-counts": {"RUNNING": 3},
        "plan": {"jid": "ea632d67b7d595e5b851708ae9ad79d6", "name": "p", "type": job_type, "nodes": nodes},
    }


def slots(document: dict[str, Any]) -> int:
    plan = penstock.plan(document)
    assert plan.tables["rejected"].to_pylist() == []
    return sum(plan.tables["required_slots"]["slots"].to_pylist())


@pytest.mark.parametrize("job_type", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("names", [{}, {"slotSharingGroupName": "default"}], ids=["no names", "one name"])
def test_slots_are_those_of_the_groups_by_their_ids(job_type, names):
    assert slots(details(job_type, **names)) == 1 + 2


def test_one_group_needs_the_slots_of_its_widest_vertex():
    assert slots(details(slotSharingGroupId=GROUPS["a"])) == 2
    assert slots(details("BATCH", slotSharingGroupId=GROUPS["a"])) == 2


def test_groups_have_the_names_that_the_document_gives():
    document = details()
    for vertex, name in zip(document["vertices"], ("left", "right", "right"), strict=True):
        vertex["slotSharingGroupName"] = name
    nodes = penstock.plan(document).tables["stream_nodes"].to_pylist()
    assert [node["slot_sharing_group"] for node in nodes] == ["left", "right", "right"]


def test_names_and_max_parallelism_are_read():
    tables = penstock.plan(details()).tables
    assert {row["max_parallelism"] for row in tables["execution_job_vertices"].to_pylist()} == {256}
    assert [node["name"] for node in tables["stream_nodes"].to_pylist()] == [
        "Source: cars",
        "Map -> Filter",
        "Sink: out",
    ]
    assert tables["topologies"]["name"].to_pylist() == ["top-speed"]


def test_what_is_left_is_said_and_what_is_read_is_not_assumed(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(details()))
    (topology,) = imported(path)
    left = set(topology["config"][IGNORED_KEY].split("; "))
    assert {
        "vertices.status",
        "vertices.metrics",
        "job.state",
        "job.status-counts",
        "nodes.description",
    } <= left
    assert not {"vertices.name", "job.vertices", "job.plan"} & left
    assumed = topology["config"][ASSUMED_KEY]
    assert "slot_sharing_group" not in assumed
    assert "max_parallelism" not in assumed
    without = details(slotSharingGroupId=None, maxParallelism=None)
    path.write_text(json.dumps(without))
    (topology,) = imported(path)
    assert "slot_sharing_group = default" in topology["config"][ASSUMED_KEY]
    assert "max_parallelism = not set" in topology["config"][ASSUMED_KEY]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"maxParallelism": "many"}, "maxParallelism"),
        ({"slotSharingGroupId": 7}, "slotSharingGroupId"),
        ({"name": ["a"]}, "name"),
    ],
)
def test_wrong_details_are_errors_of_the_topology(change, said):
    (rejected,) = penstock.plan(details(**change)).tables["rejected"].to_pylist()
    assert f"details of vertex {SOURCE}" in rejected["message"]
    assert said in rejected["message"]


def test_keys_beside_a_plan_are_said(tmp_path):
    document = details()
    del document["vertices"]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"plan": {**document["plan"], "more": 1}, "beside": 2}))
    (topology,) = imported(path)
    assert topology["config"][IGNORED_KEY] == "beside; more"


def size(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["size", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)["task_manager"]
    return found


def test_size_takes_the_task_managers_that_the_store_records(tmp_path):
    lines, store = tmp_path / "lines.jsonl", tmp_path / "store"
    lines.write_text(json.dumps(details()) + "\n")
    options = ["--slots-per-task-manager", "32", "--task-manager-memory", "4g"]
    assert CliRunner().invoke(app, ["plan", str(lines), "--out", str(store), *options]).exit_code == 0
    assert size(store) == {"slots": 32, "process_bytes": 4 << 30}
    assert size(store, "--slots-per-task-manager", 2) == {"slots": 2, "process_bytes": 4 << 30}
    assert size(store, "--task-manager-memory", "2g") == {"slots": 32, "process_bytes": 2 << 30}
    assert size(store, "-D", "taskmanager.numberOfTaskSlots=3") == {"slots": 3, "process_bytes": 4 << 30}
    memory = ("-D", "taskmanager.memory.process.size=3g")
    assert size(store, *memory) == {"slots": 32, "process_bytes": 3 << 30}


@pytest.mark.parametrize(("given", "taken"), [(32_768, 32_768), (32_769, -1), (2, 2), (0, -1)])
def test_max_parallelism_is_taken_as_far_as_flink_allows_it(given, taken):
    nodes = penstock.plan(details(maxParallelism=given)).tables["stream_nodes"]
    assert set(nodes["max_parallelism"].to_pylist()) == {taken}
