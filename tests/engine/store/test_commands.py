"""The commands that read a store, and generate, as a user calls them."""

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.engine.commands import edges, export
from penstock.engine.commands.main import app
from penstock.engine.store.spark_tables import SparkTables
from penstock.engine.store.write_plan import write_plan
from tests.engine.store.tables_from_golden import golden_lines, tables_from_golden

LINES = golden_lines(Path(__file__).parent / "golden" / "random.jsonl.gz")
LINES = [*LINES[:4], next(line for line in LINES if "error" in line["expected"])]


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """In a folder whose name is to be encoded in a URI."""
    path = str(tmp_path_factory.mktemp("commands") / "é #" / "store")
    write_plan(SparkTables(spark, path), tables_from_golden(spark, LINES), planner_version="1", options={})
    return path


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of all layers."""
    folder = tmp_path_factory.mktemp("planned")
    file, path = folder / "topologies.jsonl", str(folder / "store")
    broken = ["[1]", '{"name": "b [x]\\u0001", "transformations": [{"id": 1}]}']
    file.write_text("\n".join([*(json.dumps(line["topology"]) for line in LINES), *broken]))
    assert run("plan", str(file), "--out", path, "--planner", "columnar")[0] == 0
    return path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_export_writes_a_line_for_each_input_ordered_by_name(store, tmp_path):
    target = tmp_path / "plans.jsonl.gz"
    assert run("export", store, "--to", str(target)) == (0, "")
    with gzip.open(target, "rt", encoding="utf-8") as file:
        plans = [json.loads(line) for line in file]
    assert [p["name"] for p in plans] == sorted(line["expected"]["name"] for line in LINES)
    assert [("error" in p, "job_graph" in p) for p in plans].count((True, False)) == 1


def test_export_of_one_topology_to_standard_output(store):
    code, output = run("export", store, "--topology", "t-000002")
    assert (code, json.loads(output)["name"]) == (0, "t-000002")


def test_show_summarises_the_fleet(store):
    code, output = run("show", store)
    assert code == 0
    assert "planned\t4\nrefused\t1\n" in output
    assert "UnsupportedOperationException\tstream_graph\t1\t" in output
    assert "\x1b[" not in output


def test_show_draws_one_topology(store):
    code, output = run("show", store, "--topology", "t-000002")
    assert code == 0
    assert "18 operators in 6 job vertices, 9 job edges" in output
    assert "  ● Source: Source: s0\n  ↳ Sink: Sink: k20\n" in output
    assert "HASH ALL_TO_ALL PIPELINED_BOUNDED" in output


def test_rejected_for_people_and_for_programs(store):
    refused = next(line["expected"] for line in LINES if "error" in line["expected"])
    code, output = run("rejected", store)
    assert (code, refused["name"] in output, refused["message"] in output) == (0, True, True)
    code, output = run("rejected", store, "--json")
    assert (code, json.loads(output)["message"]) == (0, refused["message"])


COMMANDS = (
    ("show", "--topology", "t-000002"),
    ("size",),
    ("export",),
    ("edges", "--topology", "t-000002"),
    ("export", "--topology", "nothing"),
)


def test_a_store_that_is_not_local_is_read_through_spark(spark, planned, monkeypatch):
    local = [run(name, planned, *options) for name, *options in COMMANDS]
    assert [code for code, _ in local] == [*[0] * 4, 4]
    monkeypatch.setattr("penstock.engine.store.store_location.is_local", lambda _: False)
    for (name, *options), found in zip(COMMANDS, local, strict=True):
        assert run(name, planned, *options) == found


@pytest.mark.slow
def test_slices_change_nothing(planned, monkeypatch):
    whole = run("export", planned), run("edges", planned, "--topology", "t-000002")
    monkeypatch.setattr(export, "ROWS_PER_SLICE", 20)
    monkeypatch.setattr(edges, "EDGES_AT_A_TIME", 7)
    assert (run("export", planned), run("edges", planned, "--topology", "t-000002")) == whole
    assert len(whole[0][1].splitlines()) == len(LINES) + 2


def test_what_cannot_be_read_as_a_topology_is_listed_with_its_place(planned):
    listed = [line.split("\t")[:2] for line in run("rejected", planned, "--all")[1].splitlines()[1:3]]
    assert [(name, place.split("jsonl:")[1]) for name, place in listed] == [
        ("(no name)", "6"),
        ("b [x]\\x01", "7"),
    ]
    rows = [json.loads(line) for line in run("rejected", planned, "--json")[1].splitlines()[:2]]
    assert [(row.get("name"), row["source_line"]) for row in rows] == [(None, 6), ("b [x]\x01", 7)]
    assert [(len(row["errors"]) > 0, None in row["errors"][0].values()) for row in rows] == [
        (True, False)
    ] * 2


def test_an_unknown_topology_or_version_is_said_without_a_traceback(store):
    code, output = run("show", store, "--topology", "t-00002")
    assert (code, "close names: t-000002" in output, "Traceback" in output) == (4, True, False)
    code, output = run("export", store, "--version", "7")
    assert (code, "version 7; its versions are 1" in output) == (4, True)


def test_generate_writes_a_file_or_tables_and_never_over_something(spark, tmp_path):
    file, tables = tmp_path / "fleet.jsonl", tmp_path / "fleet"
    assert run("generate", "chain", "--operators", "5", "--topologies", "3", "--out", str(file))[0] == 0
    assert len(file.read_text().splitlines()) == 3
    assert run("generate", "chain", "--operators", "5", "--out", str(tables))[0] == 0
    assert spark.read.format("delta").load(str(tables / "transformations")).count() == 5
    code, output = run("generate", "chain", "--out", str(tables))
    assert (code, "exists already" in output) == (2, True)


def test_generate_names_the_shapes_there_are():
    code, output = run("generate", "layerd", "--out", "nowhere")
    assert (code, "did you mean layered?" in output) == (2, True)
