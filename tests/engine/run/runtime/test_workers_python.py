"""Workers run on the interpreter that a job asks for, or the job says why not; DataFrames without rows."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.plans.errors import JobCompileError


@pytest.fixture
def env(spark: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_workers_run_on_the_interpreter_of_the_job(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    own = program(tmp_path / "python", f'#!/bin/sh\nOF_THE_JOB=yes exec {sys.executable} "$@"\n')
    env.set_python_executable(own)
    assert collected(env.from_collection([1]).map(lambda _: os.environ.get("OF_THE_JOB"))) == ["yes"]
    other = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    assert collected(other.from_collection([1]).map(lambda _: os.environ.get("OF_THE_JOB"))) == [None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "this program does not exist"),
        ("#!/bin/sh\necho hello\n", "is not a Python interpreter"),
        ("#!/bin/sh\necho '[[3, 8], []]'\n", r"is Python 3\.8, and this process runs on 3\.\d+"),
        (
            f"#!/bin/sh\necho '[[{sys.version_info[0]}, {sys.version_info[1]}], [\"penstock.operators\"]]'\n",
            "lacks penstock.operators: install Penstock",
        ),
    ],
)
def test_an_interpreter_that_cannot_do_is_named(
    env: StreamExecutionEnvironment, tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "python"
    env.set_python_executable(str(path) if text is None else program(path, text))
    env.from_collection([1]).print()
    with pytest.raises(JobCompileError, match=message):
        env.execute()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_dataframe_without_rows(env: StreamExecutionEnvironment, spark: Any, parallelism: int) -> None:
    env.set_parallelism(parallelism)
    rows = spark.range(10).selectExpr("id", "id % 3 AS key")
    assert collected(env.from_dataframe(rows.limit(0)).map(lambda row: row.id, Types.LONG())) == []
    keyed = env.from_dataframe(rows.limit(0)).key_by(lambda row: row.key)
    assert collected(keyed.reduce(lambda one, other: one)) == []
