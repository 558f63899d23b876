"""`penstock explain`: what it explains, in text and JSON, and what is said of wrong calls."""

import json

import pytest

import penstock
from penstock.engine.commands.main import app
from tests.engine.views.draw.pictures import hostile_topology

EXAMPLES = "engine/examples/examples.jsonl"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("explain") / "store")
    penstock.plan(EXAMPLES).write(path)
    return path


def explain(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        app(["explain", *arguments], prog_name="penstock")
    return int(end.value.code or 0)


@pytest.mark.slow
def test_a_store_and_its_file_explain_the_same(store, capsysbinary):
    for options in ((), ("--json",), ("--operator", "Normalise"), ("--edge", "7", "Drop duplicates")):
        said = []
        for source in (store, EXAMPLES):
            assert explain(source, "--topology", "events-etl", *options) == 0
            said.append(capsysbinary.readouterr().out)
        assert said[0] == said[1]
        assert options == ("--json",) or max(map(len, said[0].decode().splitlines())) <= 80


@pytest.mark.parametrize("named", ["Source: Kafka: lines", "Kafka: lines", "1"])
def test_an_operator_is_found_by_its_names_and_its_number(named, capsysbinary):
    assert explain(EXAMPLES, "--topology", "word-count", "--json", "--operator", named) == 0
    (operator,) = json.loads(capsysbinary.readouterr().out)["operators"]
    assert (operator["node"], operator["name"]) == (1, "Source: Kafka: lines")


def test_json_has_every_condition_with_its_values(store, capsysbinary):
    assert explain(store, "--topology", "events-etl", "--json", "--edge", "Normalise", "Drop duplicates") == 0
    (edge,) = json.loads(capsysbinary.readouterr().out)["edges"]
    unmet = [one for one in edge["conditions"] if not one["met"]]
    assert len(edge["conditions"]) == 13
    assert [(one["reason"], one["found"]) for one in unmet] == [
        ("DOWNSTREAM_IS_HEAD", {"strategy": "HEAD", "set by": "the operator"})
    ]


def test_what_makes_a_keyed_operator_of_a_batch_job_a_head(tmp_path, capsysbinary):
    transformations = [
        {"id": 1, "kind": "source", "name": "A"},
        {"id": 2, "kind": "partition", "partitioner": "hash", "inputs": [1]},
        {"id": 3, "kind": "one_input", "name": "M", "inputs": [2]},
    ]
    heads = []
    for mode, sorts in (("BATCH", "true"), ("BATCH", "false"), ("STREAMING", "true")):
        config = {
            "execution.runtime-mode": mode,
            "execution.sorted-inputs.enabled": sorts,
            "execution.batch-state-backend.enabled": sorts,
        }
        file = tmp_path / "a.jsonl"
        file.write_text(json.dumps({"name": "a", "config": config, "transformations": transformations}))
        assert explain(str(file), "--json") == 0
        (edge,) = json.loads(capsysbinary.readouterr().out)["edges"]
        (head,) = (one for one in edge["conditions"] if one["reason"] == "DOWNSTREAM_IS_HEAD")
        heads.append((head["found"]["set by"], head["change"]))
    keyed = ("Flink: it is keyed, in a BATCH job", None)
    assert heads == [keyed, keyed, ("the default of kind one_input", None)]
    assert explain(str(file)) == 0
    assert "\n1 edge: 0 chained, 1 not chained\n" in capsysbinary.readouterr().out.decode()


def test_a_script_is_explained_without_running_its_job(capsys):
    assert explain("engine/examples/word_count.py", "--operator", "Reduce") == 0
    assert "result BLOCKING: the BATCH job's exchange mode is ALL_EDGES_BLOCKING" in capsys.readouterr().out


def test_a_plan_without_a_job_graph_is_explained_as_far_as_it_goes(tmp_path, capsysbinary):
    path = str(tmp_path / "store")
    penstock.plan(EXAMPLES, until="stream_graph").write(path)
    assert explain(path, "--topology", "events-etl", "--json") == 0
    said = json.loads(capsysbinary.readouterr().out)
    assert said["slots"] == []
    assert {one["operator_id"] for one in said["operators"]} == {None}
    assert any(not one["chained"] for one in said["edges"])


def test_one_slot_and_one_task_are_singular(tmp_path, capsys):
    given = [{"id": 1, "kind": "source", "name": "a"}, {"id": 2, "kind": "sink", "name": "k", "inputs": [1]}]
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"name": "t", "transformations": given}), encoding="utf-8")
    assert explain(str(file)) == 0
    assert "1 slot for 1 task\n" in capsys.readouterr().out


def test_names_reach_no_terminal_raw(tmp_path, capsys):
    file = tmp_path / "hostile.jsonl"
    file.write_text(json.dumps(hostile_topology()), encoding="utf-8")
    assert explain(str(file)) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--operator", "Normalize"), "close names: 'Normalise'"),
        (("--operator", "Normalise", "--edge", "1", "2"), "cannot be combined"),
        (("--edge", "Drop duplicates", "Normalise"), "has no edge from 'Drop duplicates' to 'Normalise'"),
    ],
)
def test_what_is_wrong_is_said(store, capsys, arguments, said):
    assert explain(store, "--topology", "events-etl", *arguments) == 2
    assert said in capsys.readouterr().err
