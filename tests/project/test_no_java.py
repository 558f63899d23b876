"""Tests without a marker start no JVM, and importing what all tests share imports no pyspark."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.spark.find_java import find_java
from penstock.plans.errors import ConfigurationError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["java", "javac", "jar"])
def test_a_test_without_a_marker_finds_no_java(program):
    assert shutil.which(program) == str(ROOT / "tests" / "no_java" / program)
    assert subprocess.run([program, "-version"], capture_output=True, check=False).returncode == 97
    with pytest.raises(ConfigurationError, match="none-without-the-marker-spark-or-flink"):
        find_java()


@pytest.mark.flink
def test_a_test_with_a_marker_finds_java():
    assert find_java().release >= 17


def test_what_all_tests_share_imports_no_pyspark():
    code = "import sys, tests.conftest; print({'pyspark', 'py4j'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


PLANS = """
import sys
from penstock.engine.commands.main import app
for command in (
    ["plan", {topologies!r}, "--out", "store"],
    ["show", "store"],
    ["draw", "store", "--topology", "word-count", "--to", "plan.svg"],
    ["explain", "store", "--topology", "word-count"],
    ["diff", "store", {topologies!r}],
    ["size", "store"],
    ["metrics", "store"],
    ["sql", "store", "select count(*) from topologies"],
    ["export", "store", "--to", "plans.jsonl"],
    ["verify", "store"],
    ["generate", "random", "--topologies", "2", "--out", "two.jsonl"],
):
    if app(command, standalone_mode=False):
        sys.exit(" ".join(command))
import penstock
print(penstock.plan({topologies!r}).planned)
"""


@pytest.mark.slow
def test_planning_takes_neither_java_nor_pyspark(tmp_path):
    packages, folder = tmp_path / "packages", tmp_path / "folder"
    for name in ("pyspark", "py4j", "delta"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text(f"raise ImportError('{name} is not here')")
    folder.mkdir()
    code = PLANS.format(topologies=str(ROOT / "engine" / "examples" / "examples.jsonl"))
    environment = {
        "PATH": str(tmp_path),
        "JAVA_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n5\n")
    assert {"store", "plan.svg", "plans.jsonl", "two.jsonl"} <= {path.name for path in folder.iterdir()}
