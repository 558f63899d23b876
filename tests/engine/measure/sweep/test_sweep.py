"""`penstock sweep`: its grid, what a killed one leaves, what cells hold."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.measure.bench.measure_quality import measure_quality
from penstock.engine.measure.bench.prepare_inputs import count_operators
from penstock.engine.measure.sweep import results_table
from penstock.engine.measure.sweep.grid import Cell, cells_of
from penstock.engine.measure.sweep.results_table import MEASURED, measured_cells, result_row
from penstock.engine.measure.sweep.run_sweep import (
    Answer,
    CellMeter,
    CellRequest,
    read_sweep_spec,
    run_sweep,
)
from penstock.engine.output.progress import Report
from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.plan_metrics import METRICS
from tests.engine.measure.sweep.grids import GRID, run, topology


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return pl.read_delta(str(folder / "results")).to_dicts()


@pytest.mark.slow
def test_every_combination_is_measured_once_and_equals_bench(folder):
    code, said, _ = run("grid.yaml", "--out", "swept")
    assert (code, said) == (0, "swept: 20 cells, 20 measured now, 0 before, 0 failed\n")
    rows = rows_of(folder / "swept")
    assert Counter((row["cell"], row["repetition"]) for row in rows).most_common(1)[0][1] == 1
    axes = Counter(
        (
            row["topologies"],
            row["options"]["taskmanager.numberOfTaskSlots"],
            row["planner"],
        )
        for row in rows
    )
    sources = [
        f"{shape} topologies=1 operators={n} seed=3" for shape in ("random", "layered") for n in (8, 20)
    ]
    planners = ("flink", "penstock.engine.examples.chain_equal_costs:chain")
    assert axes == Counter(
        (source, slots, planner)
        for source in [*sources, "given.jsonl"]
        for slots in "14"
        for planner in planners
    )
    quality = measure_quality(Path("given.jsonl"), planners, "drawn", PlanOptions(), 60)
    for row in rows:
        if row["topologies"] != "given.jsonl" or row["options"]["taskmanager.numberOfTaskSlots"] != "1":
            continue
        plans = quality.plans[row["planner"]]
        for metric in MEASURED:
            assert row[metric] == pytest.approx(plans[metric].mean(), nan_ok=True), metric
    assert run("grid.yaml", "--out", "swept")[1].startswith("swept: 20 cells, 0 measured now, 20 before")
    assert rows_of(folder / "swept") == rows


def test_what_a_result_follows_from_makes_another_cell(folder):
    def keys() -> set[str]:
        return {cell.key for cell in cells_of(read_sweep_spec("grid.yaml"), "grid.yaml")}

    first = keys()
    assert len(first) == 20
    (folder / "given.jsonl").write_text(json.dumps(topology("a", 3)) + "\n")
    assert len(keys() & first) == 16  # those of shapes
    (folder / "grid.yaml").write_text(GRID + "repeat: 2\n")
    cells = cells_of(read_sweep_spec("grid.yaml"), "grid.yaml")
    assert Counter(cell.key for cell in cells) == Counter(dict.fromkeys({c.key for c in cells}, 2))
    assert [cell.planner for cell in cells[:4]] == [cells[0].planner, cells[1].planner] * 2


def test_options_reach_topologies_and_clusters(folder):
    meter = CellMeter()

    def slots(options: Mapping[str, str]) -> tuple[float, float]:
        found = meter.measure(
            CellRequest(
                {"file": "given.jsonl"}, options, None, "flink", None, {"parallelism.default": "6"}, 60
            )
        )
        return found["metrics"]["slots"][0], found["metrics"]["task_managers"][0]

    assert slots({}) == ((2 + 6) / 2, 4)
    assert slots({"parallelism.default": "4", "taskmanager.numberOfTaskSlots": "2"}) == (3, 1.5)


@pytest.mark.slow
def test_cells_that_fail_are_rows_and_the_others_go_on(folder):
    (folder / "bad.yaml").write_text(
        "topologies: {file: [given.jsonl, bad.jsonl]}\nplanners: [flink, of_tests:raises, of_tests:ends]\n"
    )
    (folder / "bad.jsonl").write_text('{"name": "x", "transformations": [{"id": 1, "kind": "nothing"}]}\n')
    code, said, complained = run("bad.yaml", "--out", "swept")
    assert (code, said) == (0, "swept: 6 cells, 6 measured now, 0 before, 2 failed\n")
    assert "of_tests:ends, repetition 1: PlannerRaised for 2 of 2 topologies, the first a: " in complained
    assert "its process ended (exit code 3) without an answer" in complained
    rows = {(row["topologies"], row["planner"]): row for row in rows_of(folder / "swept")}
    assert rows["given.jsonl", "flink"]["planned"] == 2
    raised = rows["given.jsonl", "of_tests:raises"]
    assert (raised["planned"], raised["rejected"], raised["error"]) == (0, 2, "PlannerRaised")
    assert raised["rejected_for"] == {"PlannerRaised": 2}
    assert rows["bad.jsonl", "flink"]["rejected"] == 1
    ended = rows["given.jsonl", "of_tests:ends"]
    assert (ended["error"], ended["planned"], ended["slots"]) == ("PlannerRaised", 0, None)
    assert run("bad.yaml", "--out", "swept")[1].startswith(
        "swept: 6 cells, 0 measured now, 6 before, 2 failed"
    )
    again = run("bad.yaml", "--out", "swept", "--retry-failed")[1]
    assert again.startswith("swept: 6 cells, 2 measured now, 4 before, 2 failed")


def an_answer(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Answer]]:
    for cell in cells:
        yield cell, {"result": {"planned": 1}, "failure": None}


def killed_at(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, but that call of it, and all later ones, end the command."""
    calls = itertools.count(1)

    def called(*arguments: Any, **named: Any) -> Any:
        if next(calls) >= call:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    return called


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_it_was(folder, monkeypatch):
    """Each step of a commit may be the last: what is there then is read, and the sweep goes on."""
    monkeypatch.setattr("penstock.engine.measure.sweep.run_sweep.COMMIT_SECONDS", 0.0)
    cells = cells_of(read_sweep_spec("grid.yaml"), "grid.yaml")
    steps = ("write_file", "add_action", "make_log_durable")
    for place, step in enumerate(steps * 2):
        with monkeypatch.context() as patch:
            patch.setattr(results_table, step, killed_at(3, getattr(results_table, step)))
            with pytest.raises(KeyboardInterrupt):
                run_sweep(cells[: 4 * (place + 1)], "swept", an_answer, Report(), again=False)
    done = run_sweep(cells, "swept", an_answer, Report(), again=False)
    assert done.measured + done.before == len(cells) > done.measured
    found = Counter((row["cell"], row["repetition"]) for row in rows_of(folder / "swept"))
    assert found == Counter({(cell.key, cell.repetition): 1 for cell in cells})


@pytest.mark.slow
def test_kill_of_the_command(folder):
    (folder / "many.yaml").write_text(GRID.replace("seed: 3", "seed: [1, 2, 3, 4, 5, 6]"))
    command = [sys.executable, "-m", "penstock.engine.commands.main", "sweep", "many.yaml", "--out", "swept"]
    root = str(Path(__file__).parents[4])
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    log = folder / "swept" / "results" / "_delta_log" / "00000000000000000001.json"
    while not log.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {(row["cell"], row["repetition"]) for row in rows_of(folder / "swept")}
    cells = cells_of(read_sweep_spec("many.yaml"), "many.yaml")
    assert 0 < len(before) < len(cells)
    done = run_sweep(cells, "swept", an_answer, Report(), again=False)
    assert (done.before, done.measured) == (len(before), len(cells) - len(before))
    assert len(rows_of(folder / "swept")) == len(cells)


def test_one_sweep_at_a_time_writes_to_a_folder(folder):
    cells = cells_of(read_sweep_spec("grid.yaml"), "grid.yaml")[:1]

    def another(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Answer]]:
        with pytest.raises(ConfigurationError, match="another sweep"):
            run_sweep(cells, "swept", an_answer, Report(), again=False)
        yield from an_answer(cells)

    assert run_sweep(cells, "swept", another, Report(), again=False).measured == 1


def test_a_dry_run_lists_cells_and_writes_nothing(folder):
    code, said, complained = run("grid.yaml", "--dry-run", "--out", "swept")
    assert (code, complained) == (0, "20 cells\n")
    assert len(said.splitlines()) == 21
    assert not (folder / "swept").exists()


def test_sql_reads_what_sweeps_write(folder):
    cells = cells_of(read_sweep_spec("grid.yaml"), "grid.yaml")
    run_sweep(cells, "swept", an_answer, Report(), again=False)
    query = (
        "select planner, count(*) as cells, sum(planned)::int as planned from results group by all order by 1"
    )
    ran = CliRunner().invoke(app, ["sql", "swept", query, "--format", "json"])
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"planner": "flink", "cells": 10, "planned": 10},
        {"planner": "penstock.engine.examples.chain_equal_costs:chain", "cells": 10, "planned": 10},
    ]
    listed = CliRunner().invoke(app, ["sql", "swept", "--tables"]).stdout
    assert "results\tplanner\tstring\tflink (its rules), or a custom planner" in listed
    refused = CliRunner().invoke(app, ["sql", "swept", "select * from read_csv('grid.yaml')"])
    assert refused.exit_code == 2


@pytest.mark.slow
def test_sources_are_what_generate_makes(folder):
    for source, out in (
        (
            {"shape": "random", "topologies": 5, "operators": 9, "seed": 2},
            ["random", "-n", "5", "--operators", "9"],
        ),
        ({"shape": "workloads", "parallelism": 3}, ["workloads", "--parallelism", "3"]),
    ):
        seed = ["--seed", str(source["seed"])] if "seed" in source else []
        CliRunner().invoke(app, ["generate", *out, *seed, "--out", "made.jsonl"])
        lines = [json.loads(line) for line in Path("made.jsonl").read_text().splitlines()]
        request = CellRequest(source, {}, "alike", "flink", None, {}, 60)
        found = CellMeter().measure(request)
        same = CellMeter().measure(request._replace(source={"file": "made.jsonl"}))
        assert found["inputs"] == len(lines)
        assert found["metrics"] == same["metrics"]
        assert sum(map(count_operators, lines)) > 0
    spec = "workflow:\n  depth: [3, 5]\n"
    Path("fleet.yaml").write_text(spec)
    found = CellMeter().measure(
        CellRequest({"spec": "fleet.yaml", "topologies": 4, "seed": 1}, {}, None, "flink", None, {}, 60)
    )
    assert (found["inputs"], found["planned"]) == (4, 4)


def test_every_metric_has_its_columns():
    row = result_row(
        Cell({"shape": "chain"}, {}, None, "flink", 1, "k"),
        datetime.now(UTC),
        {"failure": {"error": "E"}},
        {},
    )
    assert {*MEASURED, "bottleneck"} == set(METRICS)
    assert {name for name in MEASURED if name not in row or f"{name}_p95" not in row} == set()


def test_a_table_of_something_else_is_an_error(folder):
    DeltaTable.create(str(folder / "swept" / "results"), pl.DataFrame({"a": [1]}).to_arrow().schema)
    with pytest.raises(Exception, match="swept"):
        measured_cells("swept")
