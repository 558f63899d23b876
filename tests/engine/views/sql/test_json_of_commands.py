"""`--json` of `penstock show` and `penstock size`: the same figures as in text, under documented names."""

import json
import re
from pathlib import Path

import pytest

import penstock
from penstock.engine.commands.main import app

PAGE = (Path(__file__).parents[4] / "docs" / "sql.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("json")
    file, store = folder / "fleet.jsonl", str(folder / "store")
    refused = {"name": "refused", "transformations": [{"id": 1, "kind": "nonsense", "name": "S"}]}
    lines = Path("engine/examples/examples.jsonl").read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines, json.dumps(refused)]), encoding="utf-8")
    penstock.plan(str(file)).write(store)
    return store


@pytest.mark.parametrize("command", ["show", "size"])
@pytest.mark.parametrize("topology", [None, "events-etl", "refused"])
def test_members_are_those_of_the_page_and_of_the_plan(command, topology, store, capfd):
    options = [] if topology is None else ["--topology", topology]
    with pytest.raises(SystemExit) as end:
        app([command, store, *options, "--json"], prog_name="penstock")
    assert not end.value.code
    said = json.loads(capfd.readouterr().out)
    assert set(said) <= set(re.findall(r"`(\w+)`", PAGE))
    planned = penstock.read_plan(store).tables
    if topology is None:
        assert said["slots"] == sum(planned["required_slots"]["slots"].to_pylist())
        if command == "show":
            assert said["counts"]["refused"] == sum(row["topologies"] for row in said["refusals"]) == 1
            chained = [row["operators"] * row["job_vertices"] for row in said["chain_lengths"]]
            assert said["counts"]["operators"] == sum(chained) == planned["stream_nodes"].num_rows
        else:
            assert said["session_cluster"]["slots"] == said["slots"]
    elif topology == "refused":
        assert said.get("vertices", []) == []
        assert said.get("session_cluster") is None
    elif command == "show":
        assert sum(len(vertex["operators"]) for vertex in said["vertices"]) == said["counts"]["operators"]
        assert sum(len(vertex["inputs"]) for vertex in said["vertices"]) == said["counts"]["job_edges"]
    else:
        assert said["cluster_per_job"]["wanted"] == said["slots"]
