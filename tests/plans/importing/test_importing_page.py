"""The transcripts of docs/importing.md."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from tests.project.test_doc_examples import ROOT, examples, words


def run(command, standard_input=None):
    """A command of the page: penstock's in this process, others by the shell."""
    arguments = command.split()
    if arguments[0] != "penstock":
        subprocess.run(["sh", "-c", command], check=True)
        return ""
    result = CliRunner().invoke(app, arguments[1:], input=standard_input)
    assert result.exit_code == 0, (command, result.stderr)
    return result.stdout + result.stderr


@pytest.mark.slow
def test_commands_print_what_is_shown(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "engine" / "examples", tmp_path / "engine" / "examples")
    monkeypatch.chdir(tmp_path)
    for command, shown in examples("docs/importing.md"):
        first, _, second = command.partition(" | penstock ")
        if second:
            assert run(f"{first.strip()} --out piped.jsonl")
            said = run(f"penstock {second.replace(' - ', ' piped.jsonl ')}")
        else:
            said = run(command)
        found = words(said)
        assert all(part in found for part in map(words, shown.split("…"))), (command, said)


def test_the_python_runs(capsys):
    text = Path(ROOT / "docs/importing.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(code.replace("penstock.plan(", "print(penstock.plan(").rstrip() + ".to_pylist())", {})
    assert capsys.readouterr().out.strip().startswith("['")
