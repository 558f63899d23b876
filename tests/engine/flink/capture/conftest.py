"""Programs whose jobs are captured: compiled once, run by the fewest JVMs that show what is to be shown."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.engine.commands.main import app
from penstock.engine.flink.plan_with_flink import flink_jars

SOURCES = sorted(Path(__file__).parent.glob("*.java"))


@pytest.fixture(scope="session")
def classes(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("classes")
    javac = ["javac", "-nowarn", "-cp", f"{flink_jars()}/*", "-d", str(folder), *map(str, SOURCES)]
    subprocess.run(javac, check=True, timeout=120)
    return folder


@pytest.fixture(scope="session")
def jobs_jar(classes, tmp_path_factory) -> Path:
    jar: Path = tmp_path_factory.mktemp("jar") / "jobs.jar"
    subprocess.run(["jar", "cfe", str(jar), "Jobs", "-C", str(classes), "."], check=True, timeout=60)
    return jar


@pytest.fixture(scope="session")
def java() -> str:
    found = shutil.which("java")
    assert found is not None
    return found


@pytest.fixture
def capture(tmp_path, monkeypatch):
    """A function that runs `penstock capture` in an empty folder: its result, and what `jobs.jsonl` holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLINK_HOME", raising=False)

    def run(*arguments):
        result = CliRunner().invoke(app, ["capture", *map(str, arguments)])
        out = tmp_path / "jobs.jsonl"
        lines = out.read_text().splitlines() if out.exists() else []
        return result, [json.loads(line) for line in lines if line.startswith("{")]

    return run
