"""A worker whose Python has no Penstock says so, and what to set; one that has it runs the function."""

import os
import subprocess
import sys
from pathlib import Path

import py4j
import pyarrow as pa
import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from penstock.engine.spark.describe_spark_error import (
    WorkerFunction,
    describe_spark_error,
    penstock_in_workers,
)
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import own_version

BATCH = pa.record_batch({"id": [1, 2]})


@pytest.fixture
def sent() -> bytes:
    return bytes(cloudpickle.dumps((WorkerFunction(iter),)))


def test_a_worker_loads_what_runs(sent):
    (function,) = cloudpickle.loads(sent)
    assert list(function(iter([BATCH]))) == list(WorkerFunction(iter)(iter([BATCH]))) == [BATCH]


def test_a_worker_without_penstock_and_arrow_says_what_to_set(sent, tmp_path: Path):
    """As a worker of Spark, the process has PySpark from a folder and nothing else."""
    for package in (pyspark, py4j):
        folder = Path(str(package.__file__)).parent
        (tmp_path / folder.name).symlink_to(folder)
    load = "import sys; from pyspark import cloudpickle; cloudpickle.loads(sys.stdin.buffer.read())"
    done = subprocess.run(
        [sys.executable, "-S", "-c", load],
        input=sent,
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    traceback = done.stderr.decode()
    needed = f"Spark's Python workers need Penstock {own_version()}: set PYSPARK_PYTHON"
    assert f"\nRuntimeError: {needed}" in traceback
    assert f"; {sys.executable} failed: No module named 'p" in traceback
    error = PySparkException(traceback)
    assert describe_spark_error(error).startswith(needed)
    with pytest.raises(ConfigurationError, match="PYSPARK_PYTHON"), penstock_in_workers():
        raise error


def test_other_errors_of_spark_stay():
    with pytest.raises(PySparkException, match="no such column"), penstock_in_workers():
        raise PySparkException("no such column")
