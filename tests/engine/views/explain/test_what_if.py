"""`penstock explain --what-if`: figures are those of the topologies as they would be written."""

import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine.commands import explain as subject
from penstock.engine.commands.main import app
from penstock.engine.planning import memory_estimate
from penstock.plans.errors import NotEnoughMemoryError


def chain(name: str, *changes: dict[str, Any], **job: Any) -> dict[str, Any]:
    """A source, two operators and a sink, each with a change."""
    kinds = ("source", "one_input", "one_input", "sink")
    return {
        "name": name,
        "parallelism": 4,
        **job,
        "transformations": [
            {"id": i, "kind": kind, "name": f"o{i}", "inputs": [i - 1] if i > 1 else [], **change}
            for i, (kind, change) in enumerate(zip(kinds, changes, strict=True), 1)
        ],
    }


PARALLELISM = [{"parallelism": 2}, {}, {}, {}]
CASES = {
    "DIFFERENT_PARALLELISM": (chain("a", *PARALLELISM), chain("a", {}, {}, {}, {}, parallelism=2)),
    "DIFFERENT_SLOT_SHARING_GROUP": (
        chain("a", {}, {"slot_sharing_group": "g"}, {}, {}),
        chain("a", {}, {}, {}, {}),
    ),
    "UPSTREAM_NEVER_CHAINS": (
        chain("a", {"chaining": "NEVER"}, {}, {}, {}),
        chain("a", {}, {}, {}, {}),
    ),
    "DOWNSTREAM_NEVER_CHAINS": (
        chain("a", {}, {}, {}, {"chaining": "NEVER"}),
        chain("a", {}, {}, {}, {}),
    ),
    "DOWNSTREAM_IS_HEAD": (chain("a", {}, {"chaining": "HEAD"}, {}, {}), chain("a", {}, {}, {}, {})),
    "CHAINING_DISABLED": (
        chain("a", {}, {}, {}, {}, config={"pipeline.operator-chaining.enabled": "false"}),
        chain("a", {}, {}, {}, {}),
    ),
    "DIFFERENT_MAX_PARALLELISM": (
        chain(
            "a",
            {},
            {"max_parallelism": 64},
            {},
            {},
            config={
                "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": "false",
            },
        ),
        chain("a", {}, {"max_parallelism": 64}, {}, {}),
    ),
}


def asked(store: str, reason: str, capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert explain(store, "--what-if", reason, "--json") == 0
    return dict(json.loads(capfd.readouterr().out))


def explain(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        app(["explain", *arguments], prog_name="penstock")
    return int(end.value.code or 0)


@pytest.mark.slow
@pytest.mark.parametrize("reason", list(subject.CHANGES))
def test_figures_are_those_of_the_topology_written_without_the_reason(reason, tmp_path, capfd):
    now, then = CASES[reason]
    store, changed = str(tmp_path / "now"), str(tmp_path / "then")
    penstock.plan(now).write(store)
    penstock.plan(then).write(changed)
    found = asked(store, reason, capfd)
    plan = penstock.read_plan(changed).tables
    assert found["then"]["job_vertices"] == plan["job_vertices"].num_rows == 1
    assert found["then"]["tasks"] == plan["execution_vertices"].num_rows
    assert found["then"]["slots"] == sum(plan["required_slots"]["slots"].to_pylist())
    before = penstock.read_plan(store).tables
    assert found["now"]["tasks"] == before["execution_vertices"].num_rows
    assert found["now"]["chained_edges"] == sum(before["stream_edges"]["chainable"].to_pylist())
    assert (found["topologies"], found["refused"]) == (1, 0)


@pytest.mark.slow
def test_a_fleet_in_parts_has_the_same_figures_and_leaves_other_topologies_out(tmp_path, capfd, monkeypatch):
    store = str(tmp_path / "store")
    fleet = [chain(f"t{i}", *(PARALLELISM if i % 2 else [{}] * 4)) for i in range(20)]
    file = tmp_path / "fleet.jsonl"
    file.write_text("\n".join(map(json.dumps, fleet)), encoding="utf-8")
    penstock.plan(str(file)).write(store)
    whole = asked(store, "DIFFERENT_PARALLELISM", capfd)
    monkeypatch.setattr(subject, "_ROWS_PER_PART", 8)
    assert asked(store, "DIFFERENT_PARALLELISM", capfd) == whole
    assert (whole["topologies"], whole["edges"], whole["alone"]) == (10, 10, 10)
    monkeypatch.setattr(memory_estimate, "BYTES_OF_A_NODE_PLANNED_AGAIN", 2**50)
    assert explain(store, "--what-if", "DIFFERENT_PARALLELISM") == NotEnoughMemoryError.exit_code
    assert "planning 8 operators again takes about" in capfd.readouterr().err


def test_an_explicit_partitioner_is_not_fused(tmp_path, capfd):
    topology = chain("a", *PARALLELISM)
    topology["transformations"][1]["inputs"] = [5]
    partition = {"id": 5, "kind": "partition", "inputs": [1], "partitioner": "rebalance"}
    ordered = [topology["transformations"][0], {**partition, "id": 2}]
    for place, one in enumerate(topology["transformations"][1:], 3):
        ordered.append({**one, "id": place, "inputs": [place - 1]})
    penstock.plan({**topology, "transformations": ordered}).write(str(tmp_path / "store"))
    assert asked(str(tmp_path / "store"), "DIFFERENT_PARALLELISM", capfd)["alone"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--what-if", "UNION_INPUT"), "no setting causes it"),
        (("--what-if", "NONSENSE"), "unknown reason"),
        (("--what-if", "DIFFERENT_PARALLELISM", "--topology", "a"), "can be combined only with"),
    ],
)
def test_what_cannot_be_asked_is_said(arguments, said, tmp_path, capsys):
    store = str(tmp_path / "store")
    penstock.plan(chain("a", {}, {}, {}, {})).write(store)
    assert explain(store, *arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "selected", [("--version", "1"), ("--topology", "a"), ("--operator", "a"), ("--edge", "a", "b")]
)
def test_what_is_of_stores_is_not_asked_of_scripts(selected, capsys):
    assert explain("no.py", "--what-if", "a=b", *selected) == 2
    assert "--what-if for a script can be combined only with --job, -D and --json" in capsys.readouterr().err


def test_a_change_is_asked_of_the_script_that_is_named(capsys):
    assert explain("no.py", "--what-if", "a=b") == 3
    assert "no.py: no such script" in capsys.readouterr().err


@pytest.mark.slow
def test_only_stores_with_slots_are_asked(tmp_path, capsys):
    store = str(tmp_path / "store")
    penstock.plan(chain("a", {}, {}, {}, {}), until="job_graph").write(store)
    assert explain(store, "--what-if", "DIFFERENT_PARALLELISM") == 4
    assert explain("engine/examples/examples.jsonl", "--what-if", "DIFFERENT_PARALLELISM") == 0


def test_every_change_is_documented():
    page = (Path(__file__).parents[4] / "docs" / "vocabulary.md").read_text(encoding="utf-8")
    for reason, change in subject.CHANGES.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{reason.value}` |")]
        assert row.endswith(f"| {change.meaning} |")
