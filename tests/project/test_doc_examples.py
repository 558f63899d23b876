"""Commands in README.md and pages of docs/, and the Python of README.md, print what is shown there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.commands.main import main
from tests.as_command import as_command

ROOT = Path(__file__).parents[2]
BOX = re.compile("[│┃━╇─]")


def examples(page: str) -> Iterator[tuple[str, str]]:
    """Each command of the console blocks, here-documents included, and what it prints."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command = re.match(r"[^\n]*<<'END'\n.*?^END\n|[^\n]*\n", example, re.MULTILINE | re.DOTALL)
            assert command is not None
            yield command.group(), example[command.end() :]


def words(text: str) -> str:
    return " ".join(BOX.sub(" ", text).split())


PAGES = (
    "README.md",
    "docs/commands.md",
    "docs/commands-look.md",
    "docs/commands-keep.md",
    "docs/commands-plan.md",
    "docs/configuration.md",
    "docs/drawn-fleets.md",
    "docs/custom-planners.md",
    "docs/sql.md",
    "docs/sweeps.md",
    "docs/tutorial-planner.md",
    "docs/tutorial-researcher.md",
    "docs/workloads.md",
)


def in_a_shell(command: str, folder: Path) -> str:
    """What a command prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell, environment = ["sh", "-c", command], {**os.environ, "PATH": path}
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout + done.stderr


def in_this_process(command: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """What a command of Penstock prints; nothing has to start."""
    capfd.readouterr()
    with pytest.MonkeyPatch.context() as patched, as_command():
        patched.chdir(folder)
        patched.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
    said = capfd.readouterr()
    assert not ended.value.code, (command, said.err)
    return said.out + said.err


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_is_shown(page, tmp_path, capfd):
    shutil.copytree(ROOT / "engine" / "examples", tmp_path / "engine" / "examples")
    for command, shown in examples(page):
        if command.startswith("penstock run"):  # starts Spark: tests/engine/run/runtime/test_examples.py
            continue
        run, _, pipe = command.partition(" | jq ")
        # planners of users are modules of the current folder, which this process would keep
        is_plain = re.fullmatch(r"penstock [^|&<>;$`*]+", run) and not (
            "planner" in page and "--planner" in run
        )
        said = in_this_process(run, tmp_path, capfd) if is_plain else in_a_shell(run, tmp_path)
        found = words(said)
        if pipe:
            found = found.replace("\\n", " ")
            assert all(word in found for word in re.findall(r"[\w.-]+", shown)), command
        else:
            assert all(part in found for part in map(words, shown.split("…"))), command


@pytest.mark.slow
def test_the_library_example_prints_what_is_shown(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"^```python\n((?:(?!```).*\n)+)```\n\n```text\n((?:(?!```).*\n)+)```", text, re.MULTILINE
    )
    assert found is not None
    run = [sys.executable, "-c", found[1]]
    assert subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout == found[2]
