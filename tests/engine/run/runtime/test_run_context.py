"""Jobs of several contexts in one process, at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.job_monitor import JobResult
from penstock.engine.run.runtime.list_jobs_of_script import running_script
from penstock.engine.run.runtime.run_context import (
    EnvironmentSettings,
    RunContext,
    current_context,
    use_context,
)
from penstock.operators.common.typeinfo import Types
from penstock.plans.errors import JobExecutionError


def context(name, parallelism, ended):
    settings = EnvironmentSettings(parallelism=parallelism, config={"pipeline.name": name})
    return RunContext(settings=settings, run_listeners=[ended.append])


def test_two_scripts_at_a_time_share_nothing(spark):
    both_run = threading.Barrier(2, timeout=60)

    def script(name, parallelism, fails):
        ended: list[JobResult] = []
        with running_script(context(name, parallelism, ended)):
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([1, 2], Types.LONG()).map(lambda n: n + 1, Types.LONG()).print()
            both_run.wait()
            env.execute()
            if fails:
                env.from_collection([0], Types.LONG()).map(lambda n: 1 // n, Types.LONG()).print()
                env.execute_async("fails")
            both_run.wait()
        return ended

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(script, "first", 1, False)
        second = threads.submit(script, "second", 2, True)
        with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
            second.result()
        (only,) = first.result()
    assert (only.name, only.state) == ("first", "FINISHED")
    assert {vertex.chain.parallelism for vertex in only.compiled.vertices} == {1}


def test_a_thread_of_a_script_uses_its_context():
    script = context("script", 3, [])
    with use_context(script), ThreadPoolExecutor(1) as threads:
        env = threads.submit(StreamExecutionEnvironment.get_execution_environment).result()
        assert (env.run_context, env.get_parallelism()) == (script, 3)
        inner = context("inner", 5, [])
        with use_context(inner):
            assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 5
        assert current_context() is script
    assert current_context() not in (script, inner)


def test_blocks_of_two_threads_end_in_any_order():
    begun, first_ended = threading.Event(), threading.Event()
    first, second = context("first", 1, []), context("second", 2, [])

    def outlives():
        with use_context(second):
            begun.set()
            first_ended.wait(60)
            return current_context()

    with ThreadPoolExecutor(1) as threads:
        with use_context(first):
            other = threads.submit(outlives)
            begun.wait(60)
            assert current_context() is first
        first_ended.set()
        assert other.result() is second
    assert current_context() not in (first, second)
