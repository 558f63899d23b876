"""Published benchmarks as topologies with costs: what docs/workloads.md says of them, and broken costs."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.engine.commands import main as module
from penstock.engine.measure.bench.prepare_inputs import WORKLOADS
from penstock.engine.planning.chosen_costs import ALIKE, DRAWN, chosen_costs, require_costs
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.print_metrics import number
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.operator_costs import ASSUMED, PREFIX
from penstock.plans.metrics.plan_metrics import plan_metrics
from penstock.plans.vocabulary import VIRTUAL_KINDS

ROOT = Path(__file__).parents[3]
ABOUT = [f"penstock.workload.{name}" for name in ("source", "known", "assumed")]
TOPOLOGIES: list[dict[str, Any]] = [json.loads(line) for line in WORKLOADS.read_text().splitlines()]


def planned(topologies: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    return {name: from_arrow(rows) for name, rows in plan_in_process(topologies).tables.items()}


def penstock(*args: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        module.app([*args], prog_name="penstock")
    return int(stopped.value.code or 0)


def test_every_operator_says_what_it_costs_and_every_topology_what_is_known():
    for topology in TOPOLOGIES:
        rows = topology["transformations"]
        operators = {f"{PREFIX}{row['id']}": row for row in rows if row["kind"] not in VIRTUAL_KINDS}
        assert set(topology["config"]) == {*operators, *ABOUT}, topology["name"]
        assert all(topology["config"][key] for key in ABOUT)
        for key, row in operators.items():
            given = {part.partition(":")[0] for part in topology["config"][key].split(",")}
            assert "cpu_nanoseconds_per_record" in given
            assert ("records_per_second" in given) == (row["kind"] == "source")
            assert ("selectivity" in given) == (row["kind"] not in ("source", "sink"))


def test_metrics_are_those_of_the_page():
    tables = planned(TOPOLOGIES)
    assert len(tables["rejected"]) == 0
    costs = chosen_costs(None, tables["topologies"])(tables["stream_nodes"], tables["stream_edges"])
    found = plan_metrics(tables, costs, PlanOptions().task_manager, PlanOptions().network).plans
    page = (ROOT / "docs" / "workloads.md").read_text()
    shown = {
        name: re.split(r" \| ", rest)
        for name, rest in re.findall(r"^\| `([a-z0-9-]+)` \| (\d.*) \|$", page, re.M)
    }
    assert len(shown) == len(TOPOLOGIES)
    for row in found.iter_rows(named=True):
        cells = [row[name] for name in ("operators", "vertices", "tasks", "critical_path")]
        cells += [number(row["shuffled_bytes_per_second"]), f"{row['utilisation']:.1%}"]
        cells += [number(row["sustained_records_per_second"]), row["needed_tasks"]]
        assert shown[row["name"]] == list(map(str, cells)), row["name"]


@pytest.mark.parametrize("query", [3, 11, 17])
def test_queries_that_flink_planned_have_its_vertices(query):
    with gzip.open(ROOT / "tests" / "golden" / "nexmark.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [json.loads(line)["expected"] for line in file]
    (flinks,) = (line for line in lines if line["name"] == f"q{query:02}/streaming/p4/datagen/default")
    names = [re.sub(r"\[\d+\]", "", vertex["name"]) for vertex in flinks["job_graph"]["vertices"]]
    (mine,) = (topology for topology in TOPOLOGIES if topology["name"] == f"nexmark-q{query}")
    found = planned([mine])["job_vertices"]["name"].to_list()
    assert sorted(name.replace("Sink: ", "") for name in found) == sorted(names)


def test_costs_of_topologies_come_after_a_file_and_before_what_is_drawn(tmp_path):
    config = {f"{PREFIX}2": "selectivity:2.5e-1,record_bytes:7"}
    rows = [{"id": 1, "kind": "source"}, {"id": 2, "kind": "one_input", "inputs": [1]}]
    rows = [*({**row, "name": "x"} for row in rows), {"id": 3, "kind": "sink", "name": "x", "inputs": [2]}]
    tables = planned([{"name": "mine", "config": config, "transformations": rows}])
    nodes, file = tables["stream_nodes"], tmp_path / "costs.csv"
    file.write_text("topology,id,selectivity\nmine,2,4\n")

    def cost(costs: str | None) -> dict[str, Any]:
        found = chosen_costs(costs, tables["topologies"])(nodes, tables["stream_edges"])
        return found.filter(pl.col("id") == 2).row(0, named=True)

    said, drawn, in_file = cost(None), cost(DRAWN), cost(str(file))
    assert (said["selectivity"], said["record_bytes"]) == (0.25, 7)
    assert said["cpu_nanoseconds_per_record"] == ASSUMED["cpu_nanoseconds_per_record"]
    assert (drawn["selectivity"], drawn["record_bytes"]) == (0.25, 7)
    assert (in_file["selectivity"], in_file["record_bytes"]) == (4, 7)
    assert {name: cost(ALIKE)[name] for name in ASSUMED} == {**ASSUMED, "records_per_second": 0}


def test_costs_that_are_neither_a_file_nor_a_store(tmp_path):
    for wrong in ("gone.csv", str(tmp_path), f"{tmp_path}@3"):
        with pytest.raises(ConfigurationError, match="--costs must be an existing file or store"):
            require_costs(wrong)


def test_all_broken_costs_are_named_together():
    broken = {
        f"{PREFIX}x": "selectivity:1",
        f"{PREFIX}1": "selectivty:1",
        f"{PREFIX}2": "selectivity:-1,record_bytes:many,selectivity",
        f"{PREFIX}01": "record_bytes:1",
        f"{PREFIX}3": "record_bytes:1,record_bytes:2",
        f"{PREFIX}4": "record_bytes:nan",
        f"{PREFIX}5": "",
        f"{PREFIX}6": "selectivity:1e999",
        f"{PREFIX}8": "selectivity:1e101",
        f"{PREFIX}7": "selectivity:1,",
        f"{PREFIX}-1": "selectivity:1, record_bytes:1",
    }
    tables = planned([{**TOPOLOGIES[0], "config": {**TOPOLOGIES[0]["config"], **broken}}])
    with pytest.raises(InputError) as error:
        chosen_costs(None, tables["topologies"])
    lines = str(error.value).splitlines()
    for key in broken:
        assert any(f"nexmark-q0: config {key} must" in line for line in lines), key
    assert sum(": config " in line for line in lines) == len(broken)


def test_generate_writes_them_at_a_parallelism(tmp_path, capsys):
    out = tmp_path / "workloads.jsonl.gz"
    assert penstock("generate", "workloads", "--out", str(out), "--parallelism", "7") == 0
    assert f"{len(TOPOLOGIES)} workloads" in capsys.readouterr().err
    with gzip.open(out, "rt", encoding="utf-8") as file:
        written = [json.loads(line) for line in file]
    assert written == [{**topology, "parallelism": 7} for topology in TOPOLOGIES]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("workloads", "--seed", "3", "--width", "2"), "--seed, --width: not for workloads"),
        (("workloads", "--parallelism", "0"), "parallelism must be from 1 to 32768, got 0"),
        (("workloads", "--parallelism", "40000"), "parallelism must be from 1 to 32768, got 40000"),
        (("workloads", "--out", "folder"), "--out folder: workloads: must be a file of lines"),
        (("workload",), "did you mean workloads?"),
    ],
)
def test_what_generate_refuses_of_workloads(given, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = () if "--out" in given else ("--out", "x.jsonl")
    assert penstock("generate", *given, *out) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
