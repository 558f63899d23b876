"""PyFlink scripts, unchanged, against what the real PyFlink 2.3.0 printed.

The scripts of this folder in every mode and parallelism they were run in, those of `more` in one each. Spark
runs every third script of this folder once, and those of `more` whose subject is what lies between
processes: what is sent to workers and comes back. For all others the subtasks run here, one after the other,
on what Spark would hand them; the rest of the way (plan, compilation, chains, exchange, commit, printing) is
the same.
"""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from penstock.engine.library.run_script import run_script
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext
from tests.engine.run.runtime.run_in_process import run_jobs_in_process

HERE = Path(__file__).parent

#: Runs whose results differ from PyFlink's on purpose, and why.
DIFFERENT = {
    "keyed_co_process_totals-BATCH": "PyFlink's BATCH mode forgets the list state of a key",
    "partitioners-BATCH": "PyFlink's batch scheduler runs it with parallelism 1",
    "failure_in_keyed_process": "PyFlink fails where on_timer returns None; here that is no result",
}


def scripts(folder):
    """Name of each case to its script."""
    prologue, epilogue = (folder / "prologue.txt").read_text(), (folder / "epilogue.txt").read_text()
    found = {}
    for part in re.split(r"^### ", (folder / "cases.txt").read_text(), flags=re.MULTILINE)[1:]:
        head, body = part.split("\n", 1)
        found[head.split("|")[0].strip()] = prologue + body.rstrip() + "\n" + epilogue
    return found


#: Cases of `more` that are about processes: captures, files, settings, subtasks, failures, sinks.
BETWEEN_PROCESSES = {
    "async_failures",
    "automatic_mode",
    "bytes_collected_as_ints",
    "captured_dict_that_changes",
    "class_attribute_that_changes",
    "collection_of_one_list_twice",
    "distributed_cache",
    "failures_elsewhere",
    "file_sink_and_back",
    "file_source_text",
    "function_life_cycle",
    "functions_made_in_a_loop",
    "keyed_stream_collected",
    "one_function_object_twice",
    "partitioners",
    "pickled_keys",
    "print_per_subtask",
    "python_files_and_archives",
    "runtime_context",
    "settings_read_back",
    "subtask_indices",
    "timestamp_assigner_that_changes",
    "trigger_that_changes_after_the_call",
}


def runs(folder):
    by_name = scripts(folder)
    for line in (folder / "expected.jsonl").read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        name = f"{run['case']}-{run['mode']}-{run['parallelism']}"
        if not any(name.startswith(different) for different in DIFFERENT):
            yield name, by_name[run["case"]], run


def one_a_case(found):
    """A run a case: in turn the first and the last one, so that both modes are there."""
    by_case: dict[str, list[tuple[str, str, dict[str, object]]]] = {}
    for name, script, run in found:
        by_case.setdefault(run["case"], []).append((name, script, run))
    return [some[-(number % 2)] for number, some in enumerate(by_case.values())]


MORE = one_a_case(runs(HERE / "more"))
ON_SPARK = [*one_a_case(runs(HERE))[::3], *(one for one in MORE if one[2]["case"] in BETWEEN_PROCESSES)]
IN_PROCESS = [one for one in [*runs(HERE), *MORE] if one not in ON_SPARK]


def parametrized(cases):
    return pytest.mark.parametrize(("script", "run"), [pytest.param(s, r, id=name) for name, s, r in cases])


@parametrized(ON_SPARK)
def test_prints_what_pyflink_prints(spark, tmp_path, monkeypatch, script, run):
    assert printed(script, run, tmp_path, monkeypatch) == run["results"]


@parametrized(IN_PROCESS)
def test_subtasks_print_what_pyflink_prints(tmp_path, monkeypatch, script, run):
    run_jobs_in_process(monkeypatch)
    assert printed(script, run, tmp_path, monkeypatch) == run["results"]


def printed(script, run, tmp_path, monkeypatch):
    path = tmp_path / f"{run['case']}.py"
    path.write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        run_script(
            str(path), [run["mode"], str(run["parallelism"])], RunContext(settings=EnvironmentSettings())
        )
    return sorted(line for line in output.getvalue().splitlines() if line.startswith("RESULT"))


def test_what_differs_is_among_the_cases():
    names = {*scripts(HERE), *scripts(HERE / "more")}
    assert {different.split("-")[0] for different in DIFFERENT} <= names
    assert {run["case"] for *_, run in MORE} >= BETWEEN_PROCESSES
