"""The rate model against runs: with costs measured by a run, it predicts what the run has counted."""

import contextlib
import io
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from penstock import engine
from penstock.engine.commands import main as module
from penstock.engine.library.run_script import run_script
from penstock.engine.planning.chosen_costs import chosen_costs
from penstock.engine.pyflink_names import uninstall
from penstock.engine.run.runtime.job_monitor import JobResult, tables_of_run, write_run
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext
from penstock.engine.store.open_plan import open_plan
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.measured_costs import RUN_TABLES, _Edge, _records_of_edges, measured_costs
from penstock.plans.metrics.operator_costs import operator_costs
from penstock.plans.metrics.plan_metrics import NEEDED, Metrics, plan_metrics
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants
from tests.engine.run.runtime.run_in_process import run_jobs_in_process

EXAMPLES = Path(engine.__file__).parent / "examples"
JOBS = [
    ("word_count.py",),
    ("log_counts.py", "20000"),
    ("many_keys.py", "3000"),
    ("nexmark.py", "q4", "20000"),
    ("nexmark.py", "q8", "20000"),
]


def run_of(monkeypatch: pytest.MonkeyPatch, *job: str) -> JobResult:
    """The run of a bundled job, with two subtasks per vertex."""
    run_jobs_in_process(monkeypatch)
    ended: list[JobResult] = []
    name, *arguments = job
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_script(
                str(EXAMPLES / name),
                arguments,
                RunContext(settings=EnvironmentSettings(parallelism=2), run_listeners=[ended.append]),
            )
    finally:
        uninstall()
    (result,) = ended
    assert result.state == "FINISHED"
    return result


FREE = Constants(*(0.0,) * len(Constants._fields))._replace(
    network_bytes_per_second=1.0, slot_cores=1.0, cores=1.0
)
"""Times of tasks include what handing records on costs."""


def predicted(tables: dict[str, pl.DataFrame], constants: Constants = CONSTANTS) -> Metrics:
    costs = operator_costs(tables["stream_nodes"], tables["stream_edges"], measured_costs(tables).costs)
    return plan_metrics(tables, costs, PlanOptions().task_manager, PlanOptions().network, constants)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS, ids=" ".join)
def test_predicted_records_of_edges_are_those_counted_and_the_bottleneck_is_the_busiest(
    monkeypatch, tmp_path, job
):
    if job == JOBS[0]:
        job = (*job, str(tmp_path / "text.txt"))
        (tmp_path / "text.txt").write_text("To be, or not to be\nthat is the question\n" * 5_000)
    result = run_of(monkeypatch, *job)
    every = {**result.tables, **tables_of_run(result)}
    tables = {name: from_arrow(every[name]) for name in {*NEEDED, *RUN_TABLES, "job_edges"}}
    found = predicted(tables, FREE)
    seconds = result.milliseconds / 1000
    rates = found.edges.rename({"source": "source_node", "target": "target_node"})
    edges = tables["job_edges"].join(rates, on=["source_node", "target_node", "in_index"])
    edges = edges.with_columns(records=pl.col("records_per_second") * seconds)
    assert len(edges) == len(tables["job_edges"]) > 0
    counted = tables["executions"].group_by("vertex").agg(
        pl.col("records_in", "records_out").sum(),
        running=pl.col("state_timestamps").map_elements(running_seconds, pl.Float64).mean(),
    )  # fmt: skip
    for end, count in (("source_vertex", "records_out"), ("target_vertex", "records_in")):
        sums = edges.group_by(vertex=end).agg(pl.col("records").sum()).join(counted, on="vertex")
        assert sums["records"].to_list() == pytest.approx(sums[count].to_list(), rel=1e-9)
        assert sums[count].sum() > 0
    named = counted.join(tables["job_vertices"].select("vertex", "name"), on="vertex")
    longest = max(named["running"].to_list())
    assert found.plans["bottleneck"].item() in named.filter(pl.col("running") > longest - 1e-6)["name"]
    assert found.plans["utilisation"].item() == pytest.approx(longest / seconds)


def running_seconds(times: dict[str, datetime]) -> float:
    return (times["FINISHED"] - times["RUNNING"]).total_seconds()


def penstock(*args: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        module.app([*args], prog_name="penstock")
    return int(stopped.value.code or 0)


@pytest.mark.slow
def test_a_store_with_a_run_says_what_operators_cost(monkeypatch, tmp_path, capsys):
    store, plans = str(tmp_path / "runs"), str(tmp_path / "plans")
    result = run_of(monkeypatch, "log_counts.py", "700")
    write_run(store, result)
    every = {**result.tables, **tables_of_run(result)}
    expected = predicted({name: from_arrow(every[name]) for name in {*NEEDED, *RUN_TABLES}}).plans
    for named in (store, f"{store}@1"):
        assert penstock("metrics", store, "--costs", named, "--json") == 0
        row = pl.read_ndjson(io.BytesIO(capsys.readouterr().out.encode()))
        for metric in ("source_records_per_second", "utilisation", "sustained_records_per_second"):
            assert row[metric].item() == pytest.approx(expected[metric].item())
    assert penstock("plan", str(EXAMPLES / "examples.jsonl"), "--out", plans) == 0
    for costs, said in (
        (plans, "version 1 does not contain a run"),
        (store, "version 1 has no finished run of these topologies"),
        (f"{plans}2", "must be an existing file or store"),
    ):
        capsys.readouterr()
        assert penstock("metrics", plans, "--costs", costs) == 2
        assert said in capsys.readouterr().err
    others = open_plan(plans).table("topologies").collect()
    assert callable(chosen_costs(store, others, part=True))  # there may be a run of other topologies


def test_records_of_edges_follow_from_what_vertices_count():
    """A source of two outputs, one of which another source shares, and a broadcast input."""
    edges = [
        _Edge(1, 3, 0, 1, 3, 1),
        _Edge(1, 4, 0, 1, 4, 1),
        _Edge(2, 4, 1, 2, 4, 2),
        _Edge(3, 5, 0, 3, 5, 1),
    ]
    records = _records_of_edges(edges, {1: 30, 2: 5, 3: 7}, {3: 10, 4: 30, 5: 7})
    assert records == [10, 20, 5, 7]
    both = [_Edge(1, 3, 0, 1, 3, 1), _Edge(1, 3, 1, 1, 3, 1)]
    assert _records_of_edges(both, {1: 30}, {3: 30}) == [15, 15]
