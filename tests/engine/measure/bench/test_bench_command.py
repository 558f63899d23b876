"""`penstock bench` from end to end, with the planner process alone: no JVM starts."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.engine.commands import main as module
from penstock.engine.measure.bench.planners import OPTIONS, hand_on
from penstock.engine.measure.bench.print_results import ROWS
from penstock.engine.measure.bench.run_child import python_environment

PAGE = Path(__file__).parents[4] / "docs" / "benchmarks.md"


def bench(*args: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        module.app(["bench", *args], prog_name="penstock")
    return int(stopped.value.code or 0)


def same_but_for_figures(line: str) -> list[str]:
    return re.sub(r"\d+(\.\d+)?", "0", line).split()


@pytest.mark.slow
def test_the_transcript_in_the_docs_is_written_and_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *lines = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)[0].splitlines()
    few, out = command.split()[3:], tmp_path / "first-bench"
    assert bench(*few) == 0
    told = capsys.readouterr()
    said = [*told.out.splitlines(), *told.err.splitlines()]
    said = [line for line in said if not line.startswith("other load: ")]  # depends on the machine
    assert list(map(same_but_for_figures, said)) == list(map(same_but_for_figures, lines))

    results = json.loads((out / "results.json").read_text())
    (measurement,) = results["measurements"]
    assert [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()] == [measurement]
    assert measurement["failure"] is None
    assert set(measurement["cold"]["layers"]) == {"stream_graph", "job_graph"}
    assert len(measurement["warm"]) == 1
    assert measurement["peak_memory_bytes"] > 2**25
    assert {"date", "machine", "versions", "includes", "summary", "equality"} <= set(results)
    assert len(results["machine"]["load_average"]) == 3
    rows = DeltaTable(str(out / "results")).to_pyarrow_table()
    assert rows.schema.names == ROWS.names
    assert sorted(rows["place"].to_pylist()) == [0, 1]
    assert "<img alt=" in (out / "index.html").read_text()

    faster = tmp_path / "old.json"
    for phases in (results["summary"][0]["warm"], results["summary"][0]["cold"]):
        phases["seconds"] /= 1000
    faster.write_text(json.dumps(results))
    assert bench(*few, "--compare", str(faster)) == 5
    assert "slower" in capsys.readouterr().out
    assert len(DeltaTable(str(out / "results")).to_pyarrow_table()) == 4


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--planner", "storm"), "--planner must be one of blocks, workers, process, flink"),
        (("--suite", "nothing.jsonl"), "must be a suite or a file"),
        (("--sizes", "1k"), "separated by commas, got '1k'"),
        (("--sizes", ""), "separated by commas, got ''"),
        (("--until", "topology"), "--until topology"),
        (("-D", "slots"), "-D slots: must be KEY=VALUE"),
        (("-D", "taskmanager.numberOfTaskSlots=few"), "taskmanager.numberOfTaskSlots"),
        (("--quality", "--resume"), "--resume cannot be combined with --quality"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(tmp_path, capsys, args, said):
    assert bench(*args, "--out", str(tmp_path / "out")) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_different_files_of_one_name_are_refused(tmp_path, capsys):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "jobs.jsonl").write_text("{}\n")
    both = f"{tmp_path}/old/jobs.jsonl,{tmp_path}/new/jobs.jsonl"
    assert bench("--suite", both, "--out", str(tmp_path / "out")) == 2
    assert "got two suites jobs" in capsys.readouterr().err


def test_damaged_input_leaves_what_was_measured_before(tmp_path, capsys):
    (tmp_path / "jobs.jsonl.gz").write_bytes(gzip.compress(b'{"name": "a"}\n' * 999)[:-20])
    out = tmp_path / "out"
    out.mkdir()
    (out / "results.jsonl").write_text("{}\n")
    assert bench("--suite", str(tmp_path / "jobs.jsonl.gz"), "--planner", "process", "--out", str(out)) == 3
    assert "jobs.jsonl.gz: it is not a complete gzip file" in capsys.readouterr().err
    assert (out / "results.jsonl").read_text() == "{}\n"


def test_what_to_compare_with_is_read_first(tmp_path, capsys):
    out = tmp_path / "out"
    assert bench("--compare", str(tmp_path / "old.json"), "--out", str(out)) == 3
    assert not out.exists()


@pytest.mark.slow
def test_a_benchmark_goes_on_where_it_was_stopped(tmp_path, capsys):
    out = tmp_path / "out"
    options = ("--suite", "sql", "--planner", "process", "--sizes", "40", "--repeat-in-process", "0")
    once = (*options, "--until", "stream_graph", "-D", "taskmanager.numberOfTaskSlots=2", "--out", str(out))
    assert bench(*once, "--repeat", "1") == 0
    first = json.loads((out / "results.json").read_text())["measurements"]
    with (out / "results.jsonl").open("a") as file:
        file.write('{"suite": "sql", "si')  # it was killed while it wrote
    capsys.readouterr()
    assert bench(*once, "--repeat", "2", "--resume") == 0
    results = json.loads((out / "results.json").read_text())
    assert results["measurements"][:1] == first
    assert [record["repetition"] for record in results["measurements"]] == [0, 1]
    lines = (out / "results.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == results["measurements"]
    assert len(DeltaTable(str(out / "results")).to_pyarrow_table()) == 2
    assert "cannot distinguish noise from a difference" in capsys.readouterr().err

    assert bench(*options, "--until", "slots", "--out", str(out), "--resume") == 2
    said = capsys.readouterr().err
    assert "until: stream_graph then, slots now" in said
    assert "options: {'taskmanager.numberOfTaskSlots': '2'} then, {} now" in said
    assert bench(*options, "--out", str(tmp_path / "other"), "--resume") == 3


def test_measured_planners_plan_for_the_cluster_that_options_describe(monkeypatch):
    monkeypatch.setenv(OPTIONS, "{}")
    hand_on(None, {"taskmanager.numberOfTaskSlots": "7"})
    module = "penstock.engine.measure.bench.planners"
    code = f"from {module} import bench_options\nprint(bench_options().task_manager)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=python_environment(), capture_output=True, text=True, check=True
    )
    assert "=7" in done.stdout
