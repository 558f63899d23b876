"""The DataStream examples that PyFlink ships, unchanged: they print what they print with the real PyFlink."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from penstock.engine.library.run_script import run_script
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext
from tests.engine.run.runtime.run_in_process import run_jobs_in_process

EXAMPLES = Path(__file__).parent / "examples"
EXPECTED = json.loads((EXAMPLES / "expected.json").read_text(encoding="utf-8"))


def without_subtasks(lines):
    """Lines without the subtask that printed them: where Flink's round robin begins is random."""
    return sorted(re.sub(r"^\d+> ", "", line) for line in lines)


#: Alike but for their windows: their subtasks run in this process, those of all others on Spark.
OF_WINDOWS = sorted(name for name in EXPECTED if name.startswith("windowing/"))


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - set(OF_WINDOWS)))
def test_an_example_prints_what_it_prints_with_pyflink(spark, name):
    prints_what_it_prints_with_pyflink(name)


@pytest.mark.parametrize("name", OF_WINDOWS)
def test_an_example_of_windows_prints_what_it_prints_with_pyflink(monkeypatch, name):
    run_jobs_in_process(monkeypatch)
    prints_what_it_prints_with_pyflink(name)


def prints_what_it_prints_with_pyflink(name):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_script(str(EXAMPLES / name), [], RunContext(settings=EnvironmentSettings()))
    assert without_subtasks(printed.getvalue().splitlines()) == without_subtasks(EXPECTED[name])


def test_all_of_them_are_there():
    scripts = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    assert scripts == set(EXPECTED)
