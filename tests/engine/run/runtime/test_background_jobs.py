"""Jobs that run while their script goes on: how the script ends."""

import time

import pytest

from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.list_jobs_of_script import running_script
from penstock.engine.run.runtime.run_context import RunContext
from penstock.operators.common.typeinfo import Types
from penstock.plans.errors import JobExecutionError


def divides_by_zero():
    """Its client, after the job has failed."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([0], type_info=Types.INT()).map(lambda x: 1 // x).print()
    client = env.execute_async("divides")
    while client.get_job_status().result().name != "FAILED":
        time.sleep(0.01)
    return client


def test_what_failed_before_the_end_is_raised_at_the_end(spark):
    with pytest.raises(JobExecutionError, match="ZeroDivisionError"), running_script(RunContext()):
        divides_by_zero()


def test_a_failure_that_the_script_has_seen_is_not_raised_again(spark):
    with running_script(RunContext()):
        client = divides_by_zero()
        with pytest.raises(JobExecutionError):
            client.get_job_execution_result().result()


def test_a_script_that_cancels_its_job_ends_well(spark):
    with running_script(RunContext()):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([0], type_info=Types.INT()).map(lambda x: time.sleep(60)).print()
        client = env.execute_async("sleeps")
        while client.get_job_status().result().name != "RUNNING":
            time.sleep(0.01)
        client.cancel()
