"""Mistakes that used to leave a user with an error that names nothing, or with a file that is empty."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import penstock
from penstock.engine.commands.main import app
from penstock.engine.machine.folders import hold_folder
from penstock.engine.planning.plan_by_custom_planners import FailedPolicyError, call_custom_planner
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.windows.trigger import Trigger, TriggerResult
from penstock.operators.windows.triggers import PurgingTrigger
from penstock.plans.errors import ConfigurationError
from tests.operator_harness import run
from tests.operators.windows.windows_of_ten import TEN, at, processing
from tests.plans.custom_planners.asked_planners import custom_planner

CYCLE = "digraph { a -> b -> a }"


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize("option", [(), ("--strict",)])
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_a_file_stays_as_it_is_if_no_graph_is_imported(option, name, tmp_path):
    (tmp_path / "cycle.dot").write_text(CYCLE)
    out = tmp_path / name
    out.write_text("from before")
    result = command("import", tmp_path / "cycle.dot", "--out", out, *option)
    assert (result.exit_code, out.read_text()) == (7, "from before")
    assert "1 of 1 graphs were refused" in result.stderr
    missing = tmp_path / "new.jsonl"
    assert command("import", tmp_path / "cycle.dot", "--out", missing).exit_code == 7
    assert not missing.exists()


def test_a_file_is_replaced_if_one_of_two_graphs_is_imported(tmp_path):
    (tmp_path / "cycle.dot").write_text(CYCLE)
    (tmp_path / "good.dot").write_text("digraph { a -> b }")
    out = tmp_path / "out.jsonl"
    out.write_text("from before")
    assert command("import", tmp_path / "cycle.dot", tmp_path / "good.dot", "--out", out).exit_code == 0
    assert out.read_text().count("\n") == 1


@pytest.mark.parametrize("options", [(), ("--resume",), ("--quality", "--planner", "flink")])
def test_a_second_benchmark_in_a_folder_is_refused(options, tmp_path):
    with hold_folder(tmp_path, "penstock bench"):
        result = command("bench", "--sizes", 100, "--repeat", 1, "--out", tmp_path, *options)
    assert result.exit_code == 2
    assert "another penstock bench is using this folder" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_is_let_go(tmp_path):
    for _ in range(2):
        with hold_folder(tmp_path, "penstock bench"):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["plan x.jsonl --out y", "show y", "import x.dot"])
def test_a_working_directory_that_is_gone_is_told(arguments, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); from penstock.engine.commands.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments.split()],
        cwd=gone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        8,
        "penstock: the working directory has been deleted\n  hint: cd to an existing folder\n",
    )


class Forgetful(Trigger):  # type: ignore[type-arg]
    """Returns nothing from one of its methods."""

    def __init__(self, forgets: str) -> None:
        self.forgets = forgets

    def said(self, method: str) -> Any:
        return None if method == self.forgets else TriggerResult.CONTINUE

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        return self.said("on_element")

    def on_event_time(self, time, window, ctx):
        return self.said("on_event_time")

    def on_processing_time(self, time, window, ctx):
        return self.said("on_processing_time")

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


@pytest.mark.parametrize("wrap", [lambda trigger: trigger, PurgingTrigger.of], ids=["alone", "purging"])
@pytest.mark.parametrize("method", ["on_element", "on_event_time"])
def test_a_trigger_that_returns_nothing_is_named(wrap, method):
    with pytest.raises(
        UserFunctionError, match=f"Forgetful.{method} must return one of TriggerResult.CONTINUE.* got None"
    ):
        run(processing(TEN, wrap(Forgetful(method))), [at(1)])


def test_the_error_of_a_planner_says_where_it_was_raised(monkeypatch):
    @penstock.decides("chaining")
    def fails(topologies: pl.DataFrame) -> pl.DataFrame:
        return topologies.select("no such column")

    (chosen,) = custom_planner(fails, monkeypatch)
    with pytest.raises(
        FailedPolicyError,
        match=r"ColumnNotFoundError.*\(tests.project.test_faults_are_named.py, line \d+, in fails\)",
    ):
        call_custom_planner(
            chosen, {"topologies": pl.DataFrame({"topology_id": [1]})}, 10, lambda answer: answer
        )


def test_a_held_folder_says_who(tmp_path):
    with (
        hold_folder(tmp_path, "penstock bench"),
        pytest.raises(ConfigurationError, match="wait for it, or name another folder"),
        hold_folder(tmp_path, "penstock bench"),
    ):
        pass
