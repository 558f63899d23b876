"""Constants from runs whose times follow from known constants; no JVM is started."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from benchmarks.compare_with_runs import kendall_tau
from penstock.engine.commands import main
from penstock.engine.measure.calibration import run_jobs_on_penstock
from penstock.engine.measure.calibration import run_jobs_on_penstock as calibrate_on_penstock
from penstock.engine.measure.calibration import run_jobs_on_penstock as module
from penstock.engine.measure.calibration.run_jobs_on_penstock import (
    ONE_TASK_MANAGER,
    JobRun,
    MeasuredJob,
    MeasuredOperator,
    MiniCluster,
)
from penstock.engine.run.runtime.job_monitor import JobResult, summaries
from penstock.engine.run.runtime.run_context import current_context
from penstock.plans.errors import PenstockError
from penstock.plans.metrics.rates_and_loads import CONSTANTS, read_constants
from tests.engine.run.runtime.run_in_process import run_jobs_in_process

TRUE = CONSTANTS._replace(
    call_ns=11, copy_ns=7, copy_ns_per_byte=0.25, serialise_ns=50, serialise_ns_per_byte=0.1,
    deserialise_ns=80, deserialise_ns_per_byte=0.2, route_ns=33, handover_ns_per_buffer=4_000,
    remote_ns_per_byte=0.5,
)  # fmt: skip
SOURCE_NS = 150.0
RATE = 1_000.0


def as_if_run(jobs: Iterable[MeasuredJob], cluster: MiniCluster = ONE_TASK_MANAGER) -> list[JobRun]:
    """Runs at RATE in which everything costs what TRUE says; every third is disturbed."""
    runs = []
    for number, job in enumerate(jobs):
        source, *others = job.operators
        size, disturbed = source.bytes, 1.5 if number % 37 == 5 else 1.0
        copy = 0 if job.object_reuse else TRUE.copy_ns + TRUE.copy_ns_per_byte * size
        if not others[-1].new_chain:
            times = {"task Source: chain": SOURCE_NS + len(others) * (TRUE.call_ns + copy)}
        else:
            half = TRUE.handover_ns_per_buffer * size / cluster.buffer_bytes / 2
            route = TRUE.route_ns if others[-1].inputs[0][1] == "HASH" else 0
            send = TRUE.serialise_ns + TRUE.serialise_ns_per_byte * size + half + route
            receive = TRUE.deserialise_ns + TRUE.deserialise_ns_per_byte * size + half
            times = {"task Source: one": SOURCE_NS + send, "task Sink: other": receive + TRUE.call_ns}
            if cluster.task_managers > 1:
                times["network"] = TRUE.remote_ns_per_byte * size
        shares = {name: value * RATE / 1e9 * disturbed for name, value in times.items()}
        runs.append(JobRun(job.name, {0: RATE}, shares, None))
    return runs


def test_constants_are_found_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "run_measured_jobs", as_if_run)
    path = tmp_path / "constants.json"
    with pytest.raises(SystemExit) as stopped:
        main.app(["metrics", "--calibrate", str(path)], prog_name="penstock")
    assert stopped.value.code == 0
    found = read_constants(path)
    for name in CONSTANTS._fields:
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-3, abs=1e-3), name
    entry = json.loads(path.read_text())["terms"]["call_ns"]
    assert entry["low"] <= entry["value"] <= entry["high"]
    assert entry["source"] == "measured: Flink 2.3.0 MiniCluster, median and quartiles of 5 runs"
    assert "handover_ns_per_buffer" in capsys.readouterr().out


def test_constants_of_penstocks_runtime_are_found_and_written(tmp_path, monkeypatch, capsys):
    def as_if_run(jobs: Iterable[MeasuredJob], report: Any, until: float) -> list[JobRun]:
        runs = []
        for job in jobs:
            _, *others = job.operators
            size = others[-1].bytes
            exchange = 2 * (500 + 0.4 * size) + (900 if others[-1].inputs[0][1] == "HASH" else 0)
            nanoseconds = SOURCE_NS + (exchange if others[-1].new_chain else 1_000 * len(others))
            runs.append(JobRun(job.name, {0: RATE}, {"process": nanoseconds * RATE / 1e9}, None))
        return runs

    monkeypatch.setattr(calibrate_on_penstock, "run_jobs_on_penstock", as_if_run)
    path = tmp_path / "constants.json"
    with pytest.raises(SystemExit) as stopped:
        main.app(["metrics", "--calibrate", str(path), "--on", "penstock", "--budget", "5m"])
    assert stopped.value.code == 0
    found = read_constants(path)
    assert (found.call_ns, found.copy_ns, found.route_ns) == pytest.approx((1_000, 0, 900))
    assert (found.serialise_ns, found.deserialise_ns_per_byte) == pytest.approx((500, 0.4))
    assert "Penstock" in json.loads(path.read_text())["terms"]["call_ns"]["source"]
    monkeypatch.setattr(calibrate_on_penstock, "run_jobs_on_penstock", lambda *given: [])
    with pytest.raises(PenstockError, match="job chain 0 has not run in 3 s"):
        calibrate_on_penstock.calibrate_on_penstock(lambda stage: None, 3)
    capsys.readouterr()
    for wrong in (["--calibrate", str(path), "--budget", "5m"], ["--on", "penstock"]):
        with pytest.raises(SystemExit) as stopped:
            main.app(["metrics", *wrong])
        assert stopped.value.code == 2


def test_runs_that_failed_are_left_out_unless_all_have(monkeypatch):
    def failing(jobs: Iterable[MeasuredJob], cluster: MiniCluster = ONE_TASK_MANAGER) -> list[JobRun]:
        runs = as_if_run(jobs, cluster)
        return [run._replace(error="no slots") if run.name == "hash" else run for run in runs]

    monkeypatch.setattr(module, "run_measured_jobs", failing)
    with pytest.raises(Exception, match="job hash failed on Flink's MiniCluster: no slots"):
        module.calibrate_on_flink(lambda stage: None)


def test_metrics_of_nothing_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main.app(["metrics"], prog_name="penstock")
    assert stopped.value.code == 2
    assert "SOURCE is required" in capsys.readouterr().err


def test_kendalls_tau():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert kendall_tau(values, values * 7, 0.0) == 1.0
    assert kendall_tau(values, -values, 0.0) == -1.0
    assert kendall_tau(values, np.array([1.0, 2.0, 4.0, 3.0]), 0.0) == pytest.approx(4 / 6)
    assert kendall_tau(np.ones(4), values, 0.0) is None
    # Tau-b: one of six pairs is tied on one side.
    assert kendall_tau(np.array([1.0, 1.001, 3.0, 4.0]), values, 0.02) == pytest.approx(5 / np.sqrt(30))


def test_jobs_on_penstocks_runtime_chain_emit_and_loop_as_they_say(monkeypatch):
    run_jobs_in_process(monkeypatch)
    ended: list[JobResult] = []
    monkeypatch.setattr(current_context(), "run_listeners", [ended.append])
    job = MeasuredJob(
        "many inputs",
        [
            MeasuredOperator(1, 2, bytes=10),
            MeasuredOperator(2, 2, 2_000.0, 0.5, 20, inputs=[(1, "FORWARD", "")]),
            MeasuredOperator(3, 2, inputs=[(1, "HASH", "")]),
            MeasuredOperator(4, 2, new_chain=True, inputs=[(2, "FORWARD", "")]),
            MeasuredOperator(5, 2, inputs=[(3, "BROADCAST", ""), (4, "HASH", "")]),
        ],
        seconds=0.002,
    )
    late = job.operators[1]._replace(inputs=[(1, "FORWARD", "late")])
    tagged = job._replace(operators=[job.operators[0], late])
    found, other = run_jobs_on_penstock.run_jobs_on_penstock([job, tagged], lambda name: None)
    assert found.error is None
    assert list(found.records_per_second) == [1]
    assert found.processor["process"] > 0
    assert other.error == "it has side outputs"
    few, *_, many = ended
    assert len(few.compiled.vertices) == 4
    first, halved, read, joined = sorted(counts["records_in"] for _, counts in summaries(many))
    assert first == 0
    assert read > 2 * run_jobs_on_penstock.FEW
    assert abs(halved - read / 2) <= 2
    assert joined == 2 * read + halved
    monkeypatch.setattr(run_jobs_on_penstock, "MANY", 100)
    (short,) = run_jobs_on_penstock.run_jobs_on_penstock([job._replace(seconds=60)], lambda name: None)
    assert short.error == "100 records take too little time to be measured"


def test_terms_have_the_quartiles_of_resampled_runs():
    runs = [{"task": float(nanoseconds)} for nanoseconds in (1, 2, 3, 4, 5)]
    terms = module.summarised({"job": runs}, lambda times: {"term": times["job"]["task"]})
    assert terms == {"term": module.MeasuredTerm(3, 2, 4, 5)}
