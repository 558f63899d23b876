"""Workflows of WfCommons as topologies."""

import json
from typing import Any

import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.importing.importers import is_wfformat
from penstock.plans.layers import PlanOptions
from penstock.plans.vocabulary import Layer
from tests.plans.importing.imports import DIAMOND, imported, operators

TASKS = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
OLD = [
    {"name": name, "id": f"ID{name}", "parents": parents, "cores": 2, "runtime": 3.5}
    for name, parents in TASKS.items()
]
NEW = [
    {"name": "task", "id": f"task_{name}", "parents": [f"task_{one}" for one in parents], "children": []}
    for name, parents in TASKS.items()
]


def workflow(version):
    tasks: dict[str, Any] = {"tasks": OLD}
    if version >= "1.5":
        executed = [{"id": task["id"], "coreCount": 2, "runtimeInSeconds": 1} for task in NEW]
        tasks = {"specification": {"tasks": NEW, "files": []}, "execution": {"tasks": executed}}
    return {"name": "flow", "schemaVersion": version, "workflow": tasks}


@pytest.mark.parametrize("version", ["1.3", "1.4", "1.5", "1.6"])
def test_workflows_of_wfcommons(tmp_path, version):
    file, key = tmp_path / "flow.json", "coreCount" if version >= "1.5" else "cores"
    file.write_text(json.dumps(workflow(version), indent=2))
    (topology,) = imported(file, "--take", f"parallelism={key}", "--partitioner", "rebalance")
    found = operators(topology)
    assert [kind for kind, _, _ in found] == [kind for kind, _, _ in DIAMOND]
    assert [len(reads) for _, _, reads in found] == [0, 1, 1, 2, 1]
    assert all(name.endswith(" rebalance") for _, _, reads in found for name in reads)
    assert {one["parallelism"] for one in topology["transformations"] if "name" in one} == {2}
    # plan takes it as it is, too
    for given in (version, float(version)):
        document = {**workflow(version), "schemaVersion": given}
        assert plan_in_process([document], PlanOptions(Layer.JOB_GRAPH)).planned == 1


def test_what_has_but_one_of_the_two_keys_is_no_workflow():
    document = workflow("1.5")
    assert is_wfformat(document)
    for key in ("schemaVersion", "workflow"):
        assert not is_wfformat({name: value for name, value in document.items() if name != key})


def test_either_end_of_a_dependency_may_name_it():
    document = workflow("1.5")
    tasks = document["workflow"]["specification"]["tasks"] = json.loads(json.dumps(NEW))
    for task in tasks:
        for parent in task.pop("parents"):
            next(one for one in tasks if one["id"] == parent)["children"].append(task["id"])
    both, parents = (
        plan_in_process([one], PlanOptions(Layer.STREAM_GRAPH)).tables["stream_edges"].num_rows
        for one in (document, workflow("1.5"))
    )
    assert both == parents == 5


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"schemaVersion": "1.2"}, "UnknownValue", "1.3, 1.4, 1.5, 1.6"),
        ({"workflow": {}}, "MissingKey", "no tasks"),
        ({"workflow": {"tasks": [*OLD, OLD[0]]}}, "DuplicateId", "2 tasks"),
        ({"workflow": {"tasks": [{"name": "a", "parents": ["z"]}]}}, "DanglingEdge", "'z'"),
        ({"workflow": {"tasks": [{"name": "a", "children": ["a"]}]}}, "Cycle", "a self loop"),
        ({"workflow": {"tasks": [{"name": 3}]}}, "WrongType", "name 3"),
        ({"workflow": {"tasks": []}}, "EmptyTopology", "no nodes"),
    ],
)
def test_what_is_wrong_with_a_workflow_is_said(change, error, says):
    found = plan_in_process([{**workflow("1.4"), **change}], PlanOptions(Layer.STREAM_GRAPH))
    (row,) = found.tables["rejected"].to_pylist()
    assert (row["error"], says in row["message"]) == (error, True), row


@pytest.mark.parametrize(("version", "key"), [("1.4", "id"), ("1.5", "name"), ("1.5", "id")])
def test_tasks_need_the_keys_that_name_them(version, key):
    document = workflow(version)
    holder = document["workflow"] if version == "1.4" else document["workflow"]["specification"]
    without = [{name: value for name, value in task.items() if name != key} for task in holder["tasks"]]
    found = plan_in_process([{**document, "workflow": {**document["workflow"], **(
        {"tasks": without} if version == "1.4" else {"specification": {"tasks": without, "files": []}}
    )}}], PlanOptions(Layer.STREAM_GRAPH))  # fmt: skip
    assert [key in row["message"] for row in found.tables["rejected"].to_pylist()] == [True] * (
        version > "1.4"
    )
