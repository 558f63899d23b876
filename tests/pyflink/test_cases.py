"""PyFlink scripts, unchanged, against what the real PyFlink 2.3.0 printed.

The scripts of this folder in every mode and parallelism they were run in, those of `more` in one each.
"""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from engine.datastream.environment_settings import EnvironmentSettings
from engine.runtime.run_script import run_script

HERE = Path(__file__).parent

#: Runs whose results differ from PyFlink's on purpose, and why.
DIFFERENT = {
    "keyed_co_process_totals-BATCH": "PyFlink's BATCH mode forgets the list state of a key",
    "partitioners-BATCH": "PyFlink's batch scheduler runs it with parallelism 1",
    "execution_plan": "the plan has Java's shape, without PyFlink's maps for keys",
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


ALL = [*runs(HERE), *one_a_case(runs(HERE / "more"))]


@pytest.mark.parametrize(("script", "run"), [pytest.param(s, r, id=name) for name, s, r in ALL])
def test_prints_what_pyflink_prints(spark, tmp_path, monkeypatch, script, run):
    path = tmp_path / f"{run['case']}.py"
    path.write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_script(str(path), [run["mode"], str(run["parallelism"])], EnvironmentSettings())
    lines = sorted(line for line in printed.getvalue().splitlines() if line.startswith("RESULT"))
    assert lines == run["results"]


def test_what_differs_is_among_the_cases():
    names = {*scripts(HERE), *scripts(HERE / "more")}
    assert {different.split("-")[0] for different in DIFFERENT} <= names
