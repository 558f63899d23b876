"""Python workers serve one job after the other; those that are killed fail no job but the one they run."""

import os

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.job_monitor import JobMonitor
from penstock.engine.run.runtime.run_on_spark import describe_failure
from tests.engine.run.runtime.python_workers import kill, python_workers


def doubled():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    stream = env.from_collection([1, 2, 3], Types.LONG()).rebalance().map(lambda value: 2 * value)
    with stream.execute_and_collect() as values:
        return sorted(values)


def test_the_next_job_has_the_same_workers(spark):
    assert doubled() == [2, 4, 6]
    workers = set(python_workers(os.getpid()))
    assert doubled() == [2, 4, 6]
    assert workers <= set(python_workers(os.getpid()))


def test_the_next_job_runs(spark):
    assert doubled() == [2, 4, 6]
    killed = python_workers(os.getpid())
    assert killed
    kill(killed)
    assert doubled() == [2, 4, 6]
    assert not set(killed) & set(python_workers(os.getpid()))


def test_a_job_that_comes_too_early():
    early = RuntimeError("java.io.IOException: Stream closed")
    with JobMonitor({1: 1}, "127.0.0.1") as monitor:
        error = describe_failure("meal", CompiledJob((), ()), monitor, early)
    assert "job 'meal' failed: the process that Python workers are forked from has been killed" in str(error)
