"""PyFlink scripts, unchanged, against what the real PyFlink 2.3.0 printed."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from engine.commands.run_script import run_script
from engine.datastream.environment_settings import EnvironmentSettings

HERE = Path(__file__).parent


def scripts(cases):
    """Name of each case to its script and to the (mode, parallelism) it is run in."""
    prologue, epilogue = (HERE / "prologue.txt").read_text(), (HERE / "epilogue.txt").read_text()
    found = {}
    for part in re.split(r"^### ", (HERE / cases).read_text(), flags=re.MULTILINE)[1:]:
        head, body = part.split("\n", 1)
        found[head.split("|")[0].strip()] = prologue + body.rstrip() + "\n" + epilogue
    return found


def runs(cases, expected):
    by_name = scripts(cases)
    for line in (HERE / expected).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        name = f"{run['case']}-{run['mode']}-{run['parallelism']}"
        yield pytest.param(by_name[run["case"]], run, id=name)


ALL = [*runs("cases.txt", "expected.jsonl"), *runs("more_cases.txt", "more_expected.jsonl")]


@pytest.mark.parametrize(("script", "run"), ALL)
def test_prints_what_pyflink_prints(spark, tmp_path, monkeypatch, script, run):
    path = tmp_path / f"{run['case']}.py"
    path.write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_script(str(path), [run["mode"], str(run["parallelism"])], EnvironmentSettings())
    lines = sorted(line for line in printed.getvalue().splitlines() if line.startswith("RESULT"))
    assert lines == run["results"]
