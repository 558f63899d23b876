"""Standard output that nobody reads, or that is full, whatever the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {"config": ["config"], "help": ["--help"], "version": ["--version"], "run": ["run", "script.py"]}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, with a script that prints more than a pipe holds."""
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text("for _ in range(10_000):\n    print('0123456789')\n")


def penstock(*arguments: str, stdout: int, stderr: int = subprocess.PIPE) -> tuple[int, str]:
    command = [sys.executable, "-m", "penstock.engine.commands.main", *arguments]
    done = subprocess.run(command, stdout=stdout, stderr=stderr, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("script")
def test_a_full_disk_is_named_and_a_reader_that_has_gone_is_no_error(command):
    with open("/dev/full", "wb") as full:
        code, said = penstock(*COMMANDS[command], stdout=full.fileno())
    assert code == 8
    assert said.startswith("penstock: writing standard output: No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    assert penstock(*COMMANDS[command], stdout=writer) == (141, "")
    os.close(writer)


@pytest.mark.slow
def test_a_full_standard_error_changes_no_exit_code(tmp_path):
    with open("/dev/full", "wb") as full:
        code, _ = penstock("show", str(tmp_path / "none"), stdout=subprocess.DEVNULL, stderr=full.fileno())
    assert code == 3
