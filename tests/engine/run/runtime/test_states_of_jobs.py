"""What is told of a job that runs, fails, or is none."""

import contextlib

import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.job_monitor import JobResult, summaries
from penstock.engine.run.runtime.run_context import current_context
from penstock.plans.errors import JobExecutionError
from tests.engine.run.runtime.small_jobs import both, collected, numbers


@pytest.fixture
def env(spark):
    return StreamExecutionEnvironment.get_execution_environment()


def test_a_failing_function_names_job_operator_subtask_and_record(env):
    both(env, 2, True)

    def fail(value):
        if value == 77:
            raise ValueError("cannot digest")
        return value

    stream = numbers(env, 100).map(fail, Types.LONG()).name("Digest")
    with pytest.raises(JobExecutionError) as raised:
        list(stream.execute_and_collect("meal"))
    text = str(raised.value)
    for part in ("'meal'", "'Digest'", "subtask 2 of 2", "ValueError: cannot digest", "record: 77"):
        assert part in text


def test_attempts_pass_flinks_states_and_count_records(env, monkeypatch):
    both(env, 2, True)
    ended: list[JobResult] = []
    monkeypatch.setattr(current_context(), "run_listeners", [ended.append])
    collected(numbers(env, 100).rebalance().map(lambda v: v, Types.LONG()))
    (result,) = ended
    assert result.state == "FINISHED"
    states = ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"]
    for attempt in result.attempts:
        assert list(attempt.state_timestamps) == states
        assert sorted(attempt.state_timestamps.values()) == list(attempt.state_timestamps.values())
    by_name = dict(summaries(result))
    assert by_name["Map"]["records_in"] == by_name["Map"]["records_out"] == 100
    assert by_name["Sink: Data stream collect sink"]["records_in"] == 100
    assert by_name["Map"]["subtasks"] == by_name["Map"]["attempts"] == 2


def test_no_job_is_an_error_as_in_flink(env):
    with pytest.raises(RuntimeError, match="No operators defined in streaming topology"):
        env.execute()
    with contextlib.suppress(RuntimeError):
        env.execute()
