"""Tests without a marker start no JVM, and importing what all tests share imports no pyspark."""

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
