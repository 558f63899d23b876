"""docs/drawing.md: its transcript and its Python run, and its pictures are what is drawn today."""

import re
from pathlib import Path
from shutil import copytree

from typer.testing import CliRunner

from penstock.engine.commands.main import app
from tests.project.test_doc_examples import ROOT, examples

PAGE = (ROOT / "docs" / "drawing.md").read_text(encoding="utf-8")
OF_MAKE = re.findall(
    r"/penstock (draw .* --to docs/(\S+\.svg))$", (ROOT / "Makefile").read_text(), re.MULTILINE
)
OF_BENCHMARKS = re.findall(
    r"-m benchmarks\..* docs/(\S+\.svg)$", (ROOT / "Makefile").read_text(), re.MULTILINE
)


def run(command: str) -> None:
    result = CliRunner().invoke(app, command.split())
    assert (result.exit_code, result.output) == (0, "")


def test_the_commands_and_the_python_run(tmp_path, monkeypatch):
    copytree(ROOT / "engine" / "examples", tmp_path / "engine" / "examples")
    monkeypatch.chdir(tmp_path)
    commands = [command.strip().removeprefix("penstock ") for command, _ in examples("docs/drawing.md")]
    for command in commands:
        run(command)
        assert Path(command.split()[-1]).stat().st_size
    assert len(commands) == 2
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(code, {})
    assert Path("plan.svg").read_bytes() == (ROOT / "docs" / "fraud-detection.svg").read_bytes()


def test_make_docs_makes_all_pictures_and_they_are_as_they_are_drawn_today(tmp_path, monkeypatch):
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        Path(name).name for page in pages for name in re.findall(r"!\[.*?\]\((\S+\.svg)\)", page.read_text())
    }
    made = {name for _, name in OF_MAKE} | set(OF_BENCHMARKS)
    assert shown == made == {file.name for file in (ROOT / "docs").glob("*.svg")}
    copytree(ROOT / "engine" / "examples", tmp_path / "engine" / "examples")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    for command, name in OF_MAKE:
        run(command)
        assert (tmp_path / "docs" / name).read_bytes() == (ROOT / "docs" / name).read_bytes()
