"""A worker whose Python has no Penstock says so, and what to set; one that has it runs the function."""

import os
import subprocess
import sys
from pathlib import Path

import py4j
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from penstock.engine.spark.describe_spark_error import (
    WorkerFunction,
    describe_spark_error,
    penstock_in_workers,
    unseen_by_executors,
)
from penstock.engine.store.write_rows_in_workers import write_part
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import own_version
from penstock.plans.tables import TABLES

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


def of_worker(error: Exception) -> PySparkException:
    """An error of a worker as Spark reports it."""
    traceback = (
        f'Traceback (most recent call last):\n  File "worker.py", line 1\n{type(error).__name__}: {error}'
    )
    return PySparkException(f"An exception was thrown from the Python worker.\n{traceback}\n")


def test_a_file_that_executors_do_not_see_is_named(tmp_path: Path):
    """The executors' part fails in a folder that is not there yet, as if it were another machine's."""
    given, store = tmp_path / "given", tmp_path / "store"
    file = given / "part.parquet"
    with pytest.raises(FileNotFoundError) as reading:
        pq.ParquetFile(str(file))
    with pytest.raises(FileNotFoundError) as writing:
        write_part({"rejected": str(store)}, "write_id=w", "rejected", [TABLES["rejected"].empty_table()])
    by_spark = PySparkException(
        f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file://{file}. File does not"
        " exist. It is possible the underlying files have been updated."
    )
    errors = [of_worker(reading.value), of_worker(writing.value), by_spark]
    assert [unseen_by_executors(error) for error in errors] == [None] * 3  # it is nowhere

    given.mkdir()
    file.touch()
    (store / "write_id=w").mkdir(parents=True)
    for error, path in zip(errors, (file, store / "write_id=w", file), strict=True):
        with pytest.raises(ConfigurationError) as said, penstock_in_workers():
            raise error
        assert said.value.message == (
            f"{path} must be on every machine of the Spark cluster, got executors that do not see it"
        )
