"""Plans on which Flink has a word: equal ones are kept, all others say why they are not."""

import gzip
import json

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.flink import plan_with_flink as flink_jars
from penstock.engine.flink.plan_with_flink import FlinkPlanResult
from penstock.engine.measure.bench.prepare_inputs import NEXMARK
from penstock.engine.planning import plan_beside_flink as module
from penstock.engine.planning.plan_beside_flink import PLANNERS_DISAGREE, first_difference, plan_beside_flink
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.vocabulary import Layer, SlotSharingStrategy

SOURCE = {"id": 1, "kind": "source", "name": "a", "parallelism": 2}
GOOD = {"name": "good", "transformations": [SOURCE, {"id": 2, "kind": "sink", "name": "b", "inputs": [1]}]}
SELECTS = {
    "name": "selects",
    "transformations": [
        SOURCE,
        {"id": 2, "kind": "select", "names": ["x"], "inputs": [1]},
        {"id": 3, "kind": "sink", "name": "b", "inputs": [2]},
    ],
}
FORWARDS = {
    "name": "forwards",
    "transformations": [
        SOURCE,
        {"id": 2, "kind": "partition", "partitioner": "forward", "inputs": [1]},
        {"id": 3, "kind": "sink", "name": "b", "parallelism": 3, "inputs": [2]},
    ],
}


def translated():
    """A topology that is given as a stream graph."""
    with gzip.open(NEXMARK, "rt", encoding="utf-8") as lines:
        return json.loads(next(lines)) | {"name": "translated"}


def deep(operators):
    chain = [{"id": i, "kind": "one_input", "name": "o", "inputs": [i - 1]} for i in range(2, operators)]
    return {"name": "deep", "transformations": [SOURCE, *chain]}


@pytest.fixture
def file(tmp_path):
    """A function that writes topologies, or lines, into a file."""

    def write(*topologies):
        path = tmp_path / "topologies.jsonl"
        lines = (line if isinstance(line, str) else json.dumps(line) for line in topologies)
        path.write_text("\n".join(lines))
        return path

    return write


@pytest.fixture
def flink_says(monkeypatch):
    """A function that puts words into Flink's mouth: changes of the plan of `good`."""

    def say(change):
        def planned(lines, until):
            ours = plan_in_process([json.loads(line) for line in lines], PlanOptions(until))
            frames = {name: from_arrow(table) for name, table in ours.tables.items()}
            plan = json.loads(to_plan_lines(frames)["line"][0])
            change(plan)
            return FlinkPlanResult([plan], {}, [], 1, 0, None)

        monkeypatch.setattr(module, "plan_with_flink", planned)

    return say


def refusals(planned):
    columns = ("name", "error_stage", "error")
    return {tuple(row[name] for name in columns) for row in planned.tables["rejected"].to_pylist()}


@pytest.mark.flink
def test_what_flink_plans_alike_is_kept_and_what_it_refuses_is_rejected(file):
    path = file(GOOD, SELECTS, FORWARDS, "{", deep(4000), translated())
    planned = plan_beside_flink([path])
    assert refusals(planned) == {
        ("selects", "unsupported", "UnplannableTopologyException"),
        ("translated", "unsupported", "UnplannableTopologyException"),
        ("forwards", "stream_graph", "UnsupportedOperationException"),
        ("deep", "job_graph", "StackOverflowError"),
        (None, "input", "NotJson"),
    }
    assert (planned.inputs, planned.planned, planned.rejected) == (6, 1, 5)
    ours = plan_in_process(path)
    ids = planned.tables["topologies"]["topology_id"]
    for name in set(ours.tables) - {"rejected"}:
        expected = ours.tables[name].filter(pc.is_in(ours.tables[name]["topology_id"], ids))
        assert planned.tables[name].equals(expected), name


def test_a_name_that_was_rejected_before_stays_beside_the_planned_one(file, flink_says, monkeypatch):
    """Whatever Flink says of the planned one; neither Flink nor a JDK is needed here."""
    for name in ("flink_jars", "require_java", "compiled_planner"):
        monkeypatch.setattr(module, name, lambda *_: None)
    settings = {"execution.runtime-mode": "BATCH", "execution.sorted-inputs.enabled": "false"}
    path = file(GOOD | {"config": settings}, GOOD, GOOD)
    flink_says(lambda plan: None)
    kept = plan_beside_flink([path])
    assert (kept.inputs, kept.planned, kept.rejected) == (3, 1, 2)
    flink_says(lambda plan: plan["job_graph"]["vertices"][0].update(parallelism=7))
    refused = plan_beside_flink([path])
    assert (refused.inputs, refused.planned, refused.rejected) == (3, 0, 3)
    assert refusals(refused) == {
        ("good", "stream_graph", "IllegalStateException"),
        ("good", "input", "DuplicateTopologyName"),
        ("good", "job_graph", PLANNERS_DISAGREE),
    }


@pytest.mark.flink
def test_a_refusal_on_which_both_agree_stays_as_it_is(file):
    path = file(FORWARDS)
    assert plan_beside_flink([path]).tables["rejected"].equals(plan_in_process(path).tables["rejected"])


@pytest.mark.flink
def test_another_value_of_flinks_is_said_with_its_place(file, flink_says):
    flink_says(lambda plan: plan["job_graph"]["vertices"][0].update(parallelism=7))
    planned = plan_beside_flink([file(GOOD)])
    (row,) = planned.tables["rejected"].to_pylist()
    assert (row["error_stage"], row["error"]) == ("job_graph", PLANNERS_DISAGREE)
    assert "at /vertices/0/parallelism Flink has 7, Penstock 1" in row["message"]
    assert (row["source_line"], len(row["errors"])) == (1, 1)
    assert all(len(planned.tables[name]) == 0 for name in planned.tables if name != "rejected")


@pytest.mark.flink
def test_what_flink_plans_and_penstock_refuses_is_a_disagreement(file, monkeypatch):
    plan = {"name": "forwards", "stream_graph": {"nodes": [], "edges": []}}
    monkeypatch.setattr(
        module, "plan_with_flink", lambda lines, until: FlinkPlanResult([plan], {}, [], 1, 0, None)
    )
    planned = plan_beside_flink([file(FORWARDS)], PlanOptions(Layer.STREAM_GRAPH))
    assert refusals(planned) == {("forwards", "stream_graph", PLANNERS_DISAGREE)}
    assert planned.rejected == 1


@pytest.mark.parametrize(
    ("flinks", "penstocks", "said"),
    [
        ({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3]}, "at /b/1 Flink has 2, Penstock 3"),
        ({"a": 1}, {"a": 1, "c": 2}, "at /c Flink has null, Penstock 2"),
        ([1], [1, 2], "at / Flink has [1], Penstock [1,2]"),
        ("x" * 300, "y", f'at / Flink has "{"x" * 199}…, Penstock "y"'),
    ],
)
def test_the_first_difference(flinks, penstocks, said):
    assert first_difference(flinks, penstocks) == said


def test_only_flinks_own_slot_sharing_can_be_compared(file):
    choices = PlanOptions(slot_sharing_strategy=SlotSharingStrategy.TASK_BALANCED_PREFERRED)
    with pytest.raises(
        ConfigurationError, match="slot sharing must be local-input-preferred, got task-balanced"
    ):
        plan_beside_flink([file(GOOD)], choices)


def test_without_flinks_jars_the_command_says_what_to_install(file, tmp_path, monkeypatch):
    monkeypatch.setattr(flink_jars, "_PACKAGE", "no-such-package")
    arguments = ["plan", str(file(GOOD)), "--out", str(tmp_path / "store"), "--planner", "flink"]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, "penstock-spark[flink]" in result.stderr) == (2, True)
    assert not (tmp_path / "store").exists()


@pytest.mark.flink
def test_the_command_writes_what_is_planned(file, tmp_path):
    arguments = ["plan", str(file(GOOD, FORWARDS)), "--out", str(tmp_path / "store"), "--planner", "flink"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "holds 1 planned and 1 rejected of 2 topologies (planner flink: as asked)" in result.stdout
