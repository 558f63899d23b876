"""Flink's own views of a plan: what `export --format flink-plan` and `execution-plan` write.

views.jsonl.gz has lines `{"topology", "expected"}`: what Flink 2.3.0 says to each topology.
"""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.engine.commands import export
from penstock.engine.commands.main import app
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json import to_plan_lines as view_lines
from penstock.plans.plan_json import to_topology_lines as json_text
from penstock.plans.plan_json.to_plan_lines import to_execution_plan_lines, to_flink_plan_lines
from penstock.plans.vocabulary import Layer
from tests.plans.topology.changed_graphs import forked_graph

HERE = Path(__file__).parent
FORMATS = {"flink_plan": to_flink_plan_lines, "execution_plan": to_execution_plan_lines}


@pytest.fixture(scope="module")
def golden():
    with gzip.open(HERE / "views.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def tables_of(topologies):
    planned = plan_in_process(topologies, PlanOptions(Layer.JOB_GRAPH))
    return {name: from_arrow(table) for name, table in planned.tables.items()}


@pytest.fixture(scope="module")
def tables(golden):
    return tables_of([line["topology"] for line in golden])


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def chain(length, **config):
    """A source and `length` operators; only for shapes that Flink has no stack for."""
    operators = [{"id": 1, "kind": "source", "name": "s"}]
    operators += [
        {"id": i, "kind": "one_input", "name": "m", "inputs": [i - 1]} for i in range(2, length + 2)
    ]
    return {"name": "chain", "transformations": operators, "config": config}


@pytest.mark.slow
@pytest.mark.parametrize("view", FORMATS)
def test_views_are_flinks_to_the_order_of_keys(view, golden, tables):
    lines = FORMATS[view](tables)
    found = dict(zip(lines["name"], lines["line"], strict=True))
    assert len(found) == len(golden)
    for line in golden:
        kept = ("name", "error", "message", view)
        wanted = {key: value for key, value in line["expected"].items() if key in kept}
        assert json.dumps(json.loads(found[wanted["name"]])) == json.dumps(wanted)


def test_a_stream_graph_says_itself_which_nodes_are_sinks(golden):
    nexmark = HERE.parents[1] / "golden" / "nexmark.jsonl.gz"
    with gzip.open(nexmark, "rt", encoding="utf-8") as file:
        given = [json.loads(line)["topology"] for line in file]
    ended = next(one for one in given if one["stream_graph"]["sinks"])
    line = json.loads(to_execution_plan_lines(tables_of([ended]))["line"][0])
    pact = {node["id"]: node["pact"] for node in line["execution_plan"]["nodes"]}
    assert [id for id, what in pact.items() if what == "Data Sink"] == sorted(ended["stream_graph"]["sinks"])
    assert [id for id, what in pact.items() if what == "Data Source"] == sorted(
        ended["stream_graph"]["sources"]
    )


def test_a_tree_that_would_fill_the_memory_is_refused_before_it_does(monkeypatch):
    monkeypatch.setattr(view_lines, "LONGEST_DESCRIPTION", 10_000)
    with pytest.raises(NotEnoughMemoryError, match="vertex-description-mode to CASCADING"):
        to_flink_plan_lines(tables_of([chain(100)]))
    cascading = tables_of([chain(100, **{"pipeline.vertex-description-mode": "CASCADING"})])
    description = json.loads(to_flink_plan_lines(cascading)["line"][0])["flink_plan"]["nodes"][0][
        "description"
    ]
    assert description == "Source: s" + " -&gt; m" * 100


@pytest.mark.slow
def test_export_writes_the_views_of_a_store_slice_by_slice(golden, tables, tmp_path, monkeypatch):
    some = golden[:40]
    given, store = tmp_path / "in.jsonl", tmp_path / "store"
    given.write_text("".join(json.dumps(line["topology"]) + "\n" for line in some))
    assert run("plan", given, "--out", store, "--until", "job_graph")[0] == 0
    for view in FORMATS:
        whole = run("export", store, "--format", view.replace("_", "-"))
        assert whole[0] == 0
        names = [json.loads(line)["name"] for line in whole[1].splitlines()]
        assert names == sorted(line["topology"]["name"] for line in some)
        monkeypatch.setattr(export, "ROWS_PER_SLICE", 20)
        assert run("export", store, "--format", view.replace("_", "-")) == whole
        monkeypatch.undo()


@pytest.mark.slow
def test_a_plan_that_is_exported_alone_and_in_pieces_is_its_line_among_all(golden, tmp_path, monkeypatch):
    planned = [line["topology"] for line in golden if "flink_plan" in line["expected"]]
    topologies = [*planned[:6], {**forked_graph("KeyGroupStreamPartitioner"), "name": "graph"}]
    given, store = tmp_path / "in.jsonl", tmp_path / "store"
    given.write_text("".join(json.dumps(topology) + "\n" for topology in topologies))
    assert run("plan", given, "--out", store)[0] == 0
    monkeypatch.setattr(json_text, "_ROWS_PER_PIECE", 2)
    monkeypatch.setattr(json_text, "_VALUES_AT_ONCE", 3)
    for form in export.ExportFormat:
        whole = run("export", store, "--format", form)[1].splitlines()
        assert len(whole) == len(topologies)
        for line in whole:
            alone = run("export", store, "--format", form, "--topology", json.loads(line)["name"])
            assert alone == (0, f"{line}\n", "")


def test_the_transcript_in_the_docs(tmp_path, monkeypatch):
    root = HERE.parents[2]
    page = (root / "docs" / "plan-json.md").read_text(encoding="utf-8")
    commands = [
        line[2:].split(" | ")[0].split() for line in page.splitlines() if line.startswith("$ penstock")
    ]
    assert [command[1] for command in commands] == ["plan", "export", "export"]
    shutil.copytree(root / "engine" / "examples", tmp_path / "engine" / "examples")
    monkeypatch.chdir(tmp_path)
    said = [run(*command[1:]) for command in commands]
    assert [code for code, _, _ in said] == [0, 0, 0]
    vertices = json.loads(said[1][1])["flink_plan"]["nodes"]
    assert all(vertex["description"].endswith("<br/>") for vertex in vertices)
    assert json.loads(said[2][1])["execution_plan"]["nodes"][0]["pact"] == "Data Source"


def test_a_plan_that_stopped_too_early_has_no_flink_plan(tmp_path):
    given, store = tmp_path / "in.jsonl", tmp_path / "store"
    given.write_text(json.dumps(chain(2)))
    assert run("plan", given, "--out", store, "--until", "stream_graph")[0] == 0
    code, _, said = run("export", store, "--format", "flink-plan")
    assert (code, "--until job_graph" in said) == (4, True)
    code, written, _ = run("export", store, "--format", "execution-plan")
    assert (code, len(json.loads(written)["execution_plan"]["nodes"])) == (0, 3)


@pytest.mark.slow
def test_views_of_topologies_that_are_refused_later_are_pointed_to(golden, tmp_path):
    later = "execution_graph_refusals: what Flink says of the first of them"
    (line,) = (line for line in golden if line["topology"]["name"] == later)
    given, full, enough = tmp_path / "in.jsonl", tmp_path / "full", tmp_path / "enough"
    given.write_text(f"{json.dumps(line['topology'])}\n{json.dumps(chain(2))}")
    assert (
        run("plan", given, "--out", full)[0] == run("plan", given, "--out", enough, "--until", "job_graph")[0]
    )
    code, written, said = run("export", full, "--format", "flink-plan")
    assert (code, sum("flink_plan" in json.loads(one) for one in written.splitlines())) == (0, 1)
    assert "1 topology is refused after the job_graph: plan with --until job_graph to export them" in said
    code, written, said = run("export", enough, "--format", "flink-plan")
    found = {one["name"]: one for one in map(json.loads, written.splitlines())}
    assert (code, said, found[later]["flink_plan"]) == (0, "", line["expected"]["flink_plan"])
