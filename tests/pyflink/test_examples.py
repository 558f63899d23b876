"""The DataStream examples that PyFlink ships, unchanged: they print what they print with the real PyFlink."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from engine.datastream.environment_settings import EnvironmentSettings
from engine.runtime.run_script import run_script

EXAMPLES = Path(__file__).parent / "examples"
EXPECTED = json.loads((EXAMPLES / "expected.json").read_text(encoding="utf-8"))


def without_subtasks(lines):
    """Lines without the subtask that printed them: where Flink's round robin begins is random."""
    return sorted(re.sub(r"^\d+> ", "", line) for line in lines)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_prints_with_pyflink(spark, name):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_script(str(EXAMPLES / name), [], EnvironmentSettings())
    assert without_subtasks(printed.getvalue().splitlines()) == without_subtasks(EXPECTED[name])


def test_all_of_them_are_there():
    scripts = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    assert scripts == set(EXPECTED)
