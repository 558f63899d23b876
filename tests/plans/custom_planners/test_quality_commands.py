"""Commands with planners of one's own, and the examples that come with Penstock."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import penstock as penstock_names
from penstock.engine.commands import main as module
from penstock.engine.machine.available_memory import Available
from penstock.engine.measure.bench import measure_quality
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.plans.metrics.rates_and_loads import CONSTANTS
from penstock.plans.planners import plan_in_parts
from tests.reference.random_topologies import random_topology

EXAMPLES = Path(__file__).parents[3] / "engine" / "examples" / "examples.jsonl"
PLANNERS = ("chain_equal_costs:chain", "pack_managed_memory:pack", "parallelism_by_selectivity:scale")
SEARCH = "penstock.engine.examples.anneal_chaining:anneal"


def penstock(*args: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        module.app([*args], prog_name="penstock")
    return int(stopped.value.code or 0)


@pytest.mark.slow
def test_examples_are_planned_and_compared(tmp_path, capsys):
    names = [f"penstock.engine.examples.{name}" for name in PLANNERS]
    store = str(tmp_path / "store")
    for name in (*names, SEARCH):
        args = ("plan", str(EXAMPLES), "--out", store, "--planner", name, "--costs", "drawn", "--strict")
        assert penstock(*args) == 0
        assert (
            f"5 planned and 0 rejected of 5 topologies (planner {name}: as asked)" in capsys.readouterr().out
        )
    out = tmp_path / "out"
    named = ",".join(["flink", *names])
    compared = ("--quality", "--planner", named, "--suite", str(EXAMPLES), "--out", str(out), "--json")
    assert penstock("bench", *compared) == 0
    results = json.loads(capsys.readouterr().out)
    assert results == json.loads((out / "quality.json").read_text())
    (case,) = results["cases"]
    assert [row["planned"] for row in case["planners"]] == [5, 5, 5, 5]
    assert [pair["other"] for pair in case["compared"]] == names
    differing = [
        {entry["metric"] for entry in pair["metrics"] if entry["better"] or entry["worse"]}
        for pair in case["compared"]
    ]
    assert "vertices" in differing[0]
    assert "slots" in differing[1]
    assert "tasks" in differing[2]
    assert len(DeltaTable(str(out / "quality")).to_pyarrow_table()) == 20
    page = (out / "quality.html").read_text()
    assert "<img alt=" in page
    assert "sustained_records_per_second" in page


@pytest.mark.slow
def test_metrics_of_a_store(tmp_path, capsys):
    store = str(tmp_path / "store")
    assert penstock("plan", str(EXAMPLES), "--out", store) == 0
    capsys.readouterr()
    assert penstock("metrics", store) == 0
    assert "5 topologies" in capsys.readouterr().out
    assert penstock("metrics", store, "--topology", "fraud-detection", "--costs", "drawn") == 0
    assert "Score by rules -> Keep suspicious" in capsys.readouterr().out
    assert penstock("metrics", store, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["tasks"] for line in lines if line["name"] == "word-count"] == [8]
    assert penstock("metrics", store, "--costs", "none.csv") == 2
    costs = tmp_path / "costs.csv"
    costs.write_text("topology,id,selectivity\nanother,1,2\n")
    capsys.readouterr()
    assert penstock("metrics", store, "--costs", str(costs)) == 0
    assert "costs.csv: no row matches these topologies" in capsys.readouterr().err
    costs.write_text("topology,id,selectivity\nword-count,2,1e100\n")
    assert penstock("metrics", store, "--costs", str(costs)) == 0
    written = capsys.readouterr()
    assert "e+" in written.out
    assert written.err == ""
    assert penstock("plan", str(EXAMPLES), "--out", store, "--until", "job_graph") == 0
    assert penstock("metrics", store) == 4


def test_metrics_of_a_store_on_spark(spark, tmp_path, capsys, monkeypatch):
    """Delta tables through Spark are read elsewhere; here their rows come from delta-rs, which is quicker."""
    store = str(tmp_path / "store")

    def read(delta, version, tables):
        found = read_plan(DeltaRsTables(delta.store), version, tables)
        return {name: delta.spark.createDataFrame(rows) for name, rows in found.items()}

    monkeypatch.setattr("penstock.engine.store.open_plan.read_plan", read)
    assert penstock("plan", str(EXAMPLES), "--out", store) == 0
    shown = []
    for where in ((), ("--master", spark.sparkContext.master)):
        capsys.readouterr()
        assert penstock("metrics", store, "--topology", "fraud-detection", "--costs", "drawn", *where) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "Score by rules -> Keep suspicious" in shown[0]


def test_quality_in_workers_is_that_of_one_process(spark, tmp_path, capsys, monkeypatch):
    """Of planned topologies, and of those that Penstock or a planner of one's own rejects."""
    (tmp_path / "halves.py").write_text(
        "import penstock\n@penstock.decides('parallelism')\ndef more(stream_nodes):\n"
        "    nodes = stream_nodes.filter(stream_nodes['id'] == 2)\n"
        "    return nodes.select('topology_id', 'id', parallelism=nodes['topology_id'] % 2 * 3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    topologies = [random_topology(seed, 2 + seed * 7 % 40) for seed in range(30)]
    wrong = {"name": "wrong", "transformations": [{"id": 1, "kind": "none"}]}
    lines = "".join(json.dumps(topology) + "\n" for topology in [*topologies, wrong])
    (tmp_path / "given.jsonl").write_text(lines)
    case = ("--suite", str(tmp_path / "given.jsonl"), "--planner", "flink,halves:more", "--json")
    found: list[dict[str, Any]] = []
    for where in ((), ("--master", spark.sparkContext.master)):
        capsys.readouterr()
        out = str(tmp_path / f"out{len(found)}")
        assert penstock("bench", "--quality", *case, "--out", out, *where) == 0
        (measured,) = json.loads(capsys.readouterr().out)["cases"]
        for planner in measured["planners"]:
            assert planner.pop("planning_seconds") > 0
            assert planner.pop("metrics_seconds") > 0
        found.append(measured)
    assert found[0] == found[1]
    flink, mine = found[0]["planners"]
    assert flink["rejected"] >= 1
    assert mine["rejected_for"]["ParallelismOutOfRange"] > 0
    assert mine["planned"] > 5


def test_what_does_not_fit_in_workers_is_refused_before(spark, tmp_path, capsys, monkeypatch):
    given = tmp_path / "given.jsonl"
    given.write_text(json.dumps(random_topology(1, 20)) + "\n")
    little = Available(10_000, "the test")
    monkeypatch.setattr(
        "penstock.engine.measure.bench.measure_quality.memory_of_workers", lambda spark: little
    )
    args = ("--planner", "flink", "--suite", str(given), "--master", spark.sparkContext.master)
    assert penstock("bench", "--quality", *args, "--out", str(tmp_path / "out")) == 9
    assert "transformations at a time in workers of a local Spark" in capsys.readouterr().err


@pytest.mark.slow
def test_quality_is_the_same_in_parts(tmp_path, capsys, monkeypatch):
    """Of planned topologies, and of those that are rejected while they are read or planned."""
    topologies = [random_topology(seed, 2 + seed * 7 % 40) for seed in range(30)]
    wrong = {"name": "wrong", "transformations": [{"id": 1, "kind": "none"}]}
    given = tmp_path / "given.jsonl"
    given.write_text("".join(json.dumps(topology) + "\n" for topology in [*topologies, wrong]))
    planners = f"flink,penstock.engine.examples.{PLANNERS[0]}"
    sizes: list[list[int]] = []
    divide = plan_in_parts.split_into

    def noted(frames: Any, parts: int) -> Any:
        divided = divide(frames, parts)
        sizes.append([len(part["topologies"]) + len(part["rejected"]) for part in divided])
        return divided

    monkeypatch.setattr("penstock.engine.measure.bench.measure_quality.split_into", noted)
    found = []
    for rows in (measure_quality.ROWS_OF_A_PART, 40):
        monkeypatch.setattr(measure_quality, "ROWS_OF_A_PART", rows)
        case = ("--suite", str(given), "--planner", planners, "--json", "--out", str(tmp_path / str(rows)))
        assert penstock("bench", "--quality", *case) == 0
        (measured,) = json.loads(capsys.readouterr().out)["cases"]
        for planner in measured["planners"]:
            del planner["planning_seconds"], planner["metrics_seconds"]
        found.append(measured)
    assert found[0] == found[1]
    assert sizes[0] == sizes[1] == [31]
    assert len(sizes[2]) > 5
    assert sum(sizes[2]) == sum(sizes[3]) == 31
    assert found[0]["planners"][0]["rejected"] >= 1


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("bench", "--quality"), 2, "--quality needs --planner"),
        (
            ("bench", "--quality", "--planner", "storm"),
            2,
            "--planner must be one of flink, process, workers, blocks, or a custom planner",
        ),
        (("bench", "--quality", "--planner", "flink,nowhere:f"), 2, "No module named 'nowhere'"),
        (("bench", "--costs", "drawn"), 2, "--costs needs --quality"),
        (("bench", "--quality", "--compare", "old.json"), 2, "--compare cannot be combined with --quality"),
        (("bench", "--master", "local"), 2, "--master needs --quality"),
        (("plan", str(EXAMPLES), "--out", "s", "--planner", "nowhere:f"), 2, "No module named 'nowhere'"),
        (("plan", str(EXAMPLES), "--out", "s", "--costs", "drawn"), 2, "does not use costs"),
    ],
)
def test_wrong_options_are_said(args, code, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert penstock(*args) == code
    assert said in capsys.readouterr().err


def test_quality_of_nothing_that_was_planned(tmp_path, monkeypatch, capsys):
    """Metrics of a fleet of which every topology is rejected are of none, and no error."""
    monkeypatch.chdir(tmp_path)
    lines = [
        b'{"name": "x", "transformations": [{"id": 1, "kind": "nothing"}]}',
        b"{oops",
        b"caf\xe9",
        b'"x"',
    ]
    Path("bad.jsonl").write_bytes(b"\n".join(lines))
    assert penstock("bench", "--quality", "--planner", "flink", "--suite", "bad.jsonl", "--json") == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert [(row["planned"], row["rejected"]) for row in case["planners"]] == [(0, 4)]
    assert penstock("bench", "--quality", "--planner", "flink,columnar", "--suite", "bad.jsonl") == 0
    shown = capsys.readouterr().out
    assert "0 topologies that both planned" in shown
    assert "equal everywhere" not in shown


@penstock_names.decides("chaining")
def raises(stream_edges):
    raise ValueError("I do not like it")


def test_why_a_planner_lost_topologies_is_said(tmp_path, capsys):
    planners = ("--planner", f"flink,{__name__}:raises")
    args = ("--quality", *planners, "--suite", str(EXAMPLES), "--out", str(tmp_path))
    assert penstock("bench", *args) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "5 topologies rejected: PlannerRaised; the first is " in said
    assert "the topology: found ValueError: I do not like it" in said


def test_metrics_of_a_topology_that_was_refused(tmp_path, capsys):
    given = tmp_path / "bad.jsonl"
    given.write_text('{"name": "x", "transformations": []}\n' + EXAMPLES.read_text().splitlines()[0] + "\n")
    store = str(tmp_path / "store")
    assert penstock("plan", str(given), "--out", store) == 0
    assert penstock("metrics", store, "--topology", "x") == 4
    assert "x was refused and has no plan" in capsys.readouterr().err


@pytest.mark.slow
def test_constants_of_a_file_count_everywhere(tmp_path, capsys):
    file = tmp_path / "constants.json"
    file.write_text('{"terms": {"serialise_ns": {"value": 50000}}}')

    def bench_quality(*more):
        out = str(tmp_path / "out")
        given = ("--quality", "--planner", "flink", "--suite", str(EXAMPLES), "--out", out, "--json", *more)
        assert penstock("bench", *given) == 0
        results = json.loads(capsys.readouterr().out)
        return results["constants"]["serialise_ns"], _mean(results["cases"][0]["planners"][0]["fleet"])

    planned = penstock_names.plan(EXAMPLES)
    usual, dear = bench_quality(), bench_quality("--constants", str(file))
    assert (usual[0], dear[0]) == (CONSTANTS.serialise_ns, 50_000)
    assert dear[1] < usual[1]
    for constants in (file, {"serialise_ns": 50_000}):
        assert _mean(planned.metrics("drawn", constants).summary.to_pylist()) == pytest.approx(dear[1])
    assert _mean(planned.metrics("drawn").summary.to_pylist()) == pytest.approx(usual[1])

    spec = {"topologies": {"file": [str(EXAMPLES)]}, "costs": ["drawn"], "constants": str(file)}
    swept = penstock_names.sweep(spec, str(tmp_path / "swept"))
    (row,) = swept.table().to_pylist()
    assert row["sustained_records_per_second"] == pytest.approx(dear[1])
    wrong = {**spec, "constants": str(tmp_path / "none.json")}
    with pytest.raises(penstock_names.InputError, match=r"none\.json"):
        penstock_names.sweep(wrong, str(tmp_path / "swept"))


def _mean(fleet: list[dict[str, Any]]) -> float:
    (row,) = (row for row in fleet if row["metric"] == "sustained_records_per_second")
    return float(row["mean"])
